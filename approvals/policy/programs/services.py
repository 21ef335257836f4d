"""Titles and hosts of programs that contact other machines, derived only from their grammar."""

import itertools
import re
import shlex

from ..shell_words import OPAQUE, names
from ..verdict import Effect
from . import acts
from .given import files_read, given, statements, text_of
from .sql_titles import changes_data, sql_title
from .text_titles import mongo_title, redis_title

CODE_HOST = {
    "pr merge": "Merge pull request",
    "pr ready": "Mark pull request",
    "pr close": "Close pull request",
    "pr reopen": "Reopen pull request",
    "pr comment": "Comment on pull request",
    "pr review": "Review pull request",
    "pr edit": "Edit pull request",
    "pr create": "Open a pull request",
    "pr checkout": "Check out pull request",
    "issue create": "Open an issue",
    "issue close": "Close issue",
    "issue comment": "Comment on issue",
    "issue edit": "Edit issue",
    "issue delete": "Delete issue",
    "pr approve": "Approve pull request",
    "pr update": "Edit pull request",
    "issue update": "Edit issue",
    "issue note": "Comment on issue",
    "pr note": "Comment on pull request",
    "release create": "Create release",
    "release delete": "Delete release",
    "repo create": "Create repository",
    "repo delete": "Delete repository",
    "workflow run": "Run workflow",
    "run rerun": "Rerun workflow run",
    "run cancel": "Cancel workflow run",
    "secret set": "Set secret",
    "secret delete": "Delete secret",
    "secret remove": "Delete secret",
    "variable set": "Set variable",
    "variable delete": "Delete variable",
    "release upload": "Upload to release",
    "release edit": "Edit release",
    "repo archive": "Archive repository",
    "repo rename": "Rename repository to",
    "repo edit": "Change repository",
    "repo fork": "Fork repository",
    "gist create": "Publish a gist of",
    "gist delete": "Delete gist",
    "label delete": "Delete label",
    "cache delete": "Delete cache",
    "run delete": "Delete workflow run",
    "workflow disable": "Disable workflow",
    "workflow enable": "Enable workflow",
    "ssh-key add": "Add SSH key",
    "ssh-key delete": "Delete SSH key",
    "deploy-key add": "Add deploy key",
    "deploy-key delete": "Delete deploy key",
}
NOUNS = {"mr": "pr", "pipeline": "run", "ci": "run", "project": "repo"}
SSH_VALUES = names("-i -p -P -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -X")
FLAGS_WITH_HOST = {"psql": ("-h", "--host"), "mysql": ("-h", "--host"), "redis-cli": ("-h",), "mongosh": ("--host",)}
DATABASES = ("psql", "mysql", "redis-cli", "mongosh")
LOOKUPS = {"dig": "Look up", "nslookup": "Look up", "host": "Look up", "ping": "Ping", "traceroute": "Trace the way to"}
MAX_NAMED = 3  # files or sources that a headline names
HOST = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])")
URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?:[:/?].*)?")


def code_host_title(name, operands):
    """Return the headline of a command of `gh` or `glab` that changes something."""
    noun, verb, *rest = [*operands[:3], "", ""]
    what = rest[0][:60] if rest and OPAQUE not in rest[0] else ""
    act = CODE_HOST.get(f"{NOUNS.get(noun, noun)} {verb}")
    act = act.replace("pull request", "merge request") if act and noun == "mr" else act
    if act and verb == "create" and noun not in ("release", "repo"):
        what = ""
    if act == "Mark pull request":
        what = f"{what} as ready".strip()
    return f"{act} {what}".strip() + f" ({name})" if act else ""


def connects(name, texts, tier="high", simple=None, judge=None):
    """Return the effect of a program that contacts other machines by a protocol of its own."""
    host = host_of_words(name, texts)
    says = f"connects to {host} with {name}" if host else f"talks to other machines with {name}"
    said, loses = _statements(name, texts, simple, judge) if name in DATABASES else ("", False)
    if name in DATABASES:
        title = _database_title(name, texts, host, said, simple, judge)
    else:
        title, loses = raw_title(name, texts, host), name == "ssh" and _loses_there(texts)
    return Effect("remote", says, tier, "no", target=host, title=title, loses=loses)


def _statements(name, texts, simple, judge):
    """Return (headline, whether they lose data) of what a database's shell is given to carry out."""
    act = acts.act_of(name, texts)
    read = given(texts, simple, judge) if simple else ""
    if name == "redis-cli":
        lines = [line.split() for line in read.splitlines() if line.strip()] if not act.operands else [act.operands]
        found = [(said, loses) for said, loses in map(redis_title, lines) if said]
        found.sort(key=lambda each: not each[1])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return (found[0][0] + more, any(loses for _, loses in found)) if found else ("", False)
    text = ";".join([*statements(texts), read])
    return mongo_title(text) if name == "mongosh" else (sql_title(text), changes_data(text))


def _database_title(name, texts, host, said, simple, judge):
    act = acts.act_of(name, texts)
    named = [value for label, value in act.places if label == "database"]
    named += act.operands[:1] if name in ("psql", "mysql") and not said_by_url(act.operands) else []
    at = f" on {host}" if host else ""
    at += f", database {named[0][:40]}" if named and OPAQUE not in named[0] else ""
    production = " in production" if act.production or acts.PRODUCTION.search(host) else ""
    files = [file for file in (files_read(texts, simple) if simple else []) if not text_of(file, judge)]
    shown = ", ".join(files[:MAX_NAMED]) + (f" and {len(files) - MAX_NAMED} more" if files[MAX_NAMED:] else "")
    if said or files:
        unread = f"run the statements in {shown[:100]}" if files else ""
        inner = ", ".join(filter(None, [said, unread]))
        return f"{inner[:1].upper() + inner[1:]} ({name}{at}){production}"
    return (f"Connect to the database on {host} ({name})" if host else f"Connect to a database ({name})") + production


def said_by_url(operands):
    """Return True if the first operand is an address, which may hold a password, or statements."""
    return any("://" in text or "=" in text or " " in text for text in operands[:1])


def host_of_words(name, texts):
    """Return the host that a program contacts, by the position of its argument; "" if not certain."""
    if any(OPAQUE in text for text in texts):
        return ""
    if name in ("ssh", "sftp", "telnet", "ftp"):
        return _plain(next(iter(_operands(texts, SSH_VALUES)), ""))
    if name in ("scp", "rsync"):
        places = _operands(texts, SSH_VALUES | {"--exclude", "--include", "--rsh", "--files-from"})
        hosts = [match[1] for text in places if (match := re.fullmatch(r"(?:[\w.+-]+@)?([A-Za-z0-9][\w.-]+):.*", text))]
        return hosts[0].lower() if hosts else ""
    if name in ("nc", "ncat", "netcat"):
        operands = _operands(texts, names("-w -s -p -X -x -q -i"))
        return _plain(operands[0]) if len(operands) == 2 and operands[1].isdecimal() else ""
    if name in DATABASES:
        for flag, value in itertools.pairwise(texts):
            if flag in FLAGS_WITH_HOST[name]:
                return _plain(value)
        given = [match[1] for text in texts if (match := URL.fullmatch(text.split("=", 1)[-1]))]
        return given[0].lower() if given else ""
    if name in LOOKUPS:
        named = [t for t in _operands(texts, names("-c -i -W -w -t -s -p -q -m")) if not t.startswith(("@", "+"))]
        return _plain(named[0]) if named else ""
    return ""


def _operands(texts, valued):
    found, rest = [], list(texts)
    while rest:
        text = rest.pop(0)
        if text in valued:
            rest = rest[1:]
        elif not text.startswith("-"):
            found.append(text)
    return found


def _plain(text):
    if match := URL.fullmatch(text):
        return match[1].lower()
    match = HOST.fullmatch(text)
    return match[1].lower() if match else ""


def raw_title(name, texts, host):
    """Return the headline of a program that contacts other machines; "" if its acting words make it."""
    production = " in production" if any(acts.PRODUCTION.search(text) for text in texts) else ""
    if name == "ssh" and host:
        inner = there(texts)
        return f"Run {inner} on {host} (ssh){production}" if inner else f"Open a shell on {host}{production}"
    if name in ("scp", "rsync") and host:
        operands = _operands(texts, SSH_VALUES | {"--exclude", "--include", "--rsh", "--files-from"})
        *sources, goal = operands if len(operands) > 1 else ["files", operands[0]]
        more = f" and {len(sources) - MAX_NAMED} more" if sources[MAX_NAMED:] else ""
        deletes = ", deleting what is not in the source" if any(text.startswith("--del") for text in texts) else ""
        named = ", ".join(source[:60] for source in sources[:MAX_NAMED])
        return f"Copy {named}{more} to {goal[:60]}{deletes} ({name}){production}"
    if name in LOOKUPS and host:
        return f"{LOOKUPS[name]} {host}"
    if name == "twine" and texts[:1] == ["upload"]:
        return f"Publish {' '.join(texts[1:3])[:60] or 'a package'} (twine)"
    if host:
        return f"Connect to {host} ({name})"
    return ""


def there(texts):
    """Return what ssh runs elsewhere, as a headline may hold it; "" for a shell."""
    words = _words_there(texts)
    text = " ".join(words)
    if said := sql_title(" ".join(statements(words)) or text):
        return f"{words[0][:40]} ({said[:1].lower() + said[1:]})"
    return acts.shown_words(words)


def _words_there(texts):
    words = texts[_first_operand(texts) + 1 :]
    words = words[1:] if words[:1] == ["--"] else words
    try:
        return shlex.split(words[0]) if len(words) == 1 else words
    except ValueError:
        return words[0].split()


def _first_operand(texts):
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in SSH_VALUES else 1
    return at


def _loses_there(texts):
    words = _words_there(texts)
    bare = words[1:] if words[:1] == ["sudo"] else words
    return bool(bare) and (
        bare[0] in ("rm", "dd", "shred", "truncate", "rmdir", "unlink") or bare[0].startswith("mkfs")
        or changes_data(" ".join(statements(words))) or acts.act_of(bare[0], bare[1:]).loses
    )  # fmt: skip
