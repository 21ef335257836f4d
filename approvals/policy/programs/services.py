"""Titles and hosts of programs that contact other machines, derived only from their grammar."""

import itertools
import re

from ..shell_words import OPAQUE, names
from ..verdict import Effect
from .sql_titles import changes_data, sql_title
from .verbs import operands_of

GH = {
    "pr merge": "Merge pull request",
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
    "release create": "Create release",
    "release delete": "Delete release",
    "repo create": "Create repository",
    "repo delete": "Delete repository",
    "workflow run": "Run workflow",
    "run rerun": "Rerun workflow run",
    "run cancel": "Cancel workflow run",
    "secret set": "Set secret",
    "secret delete": "Delete secret",
}
SSH_VALUES = names("-i -p -P -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -X")
FLAGS_WITH_HOST = {"psql": ("-h", "--host"), "mysql": ("-h", "--host"), "redis-cli": ("-h",), "mongosh": ("--host",)}
STATEMENT_FLAGS = {"psql": ("-c", "--command"), "mysql": ("-e", "--execute")}
DATABASES = ("psql", "mysql", "redis-cli", "mongosh")
LOOKUPS = {"dig": "Look up", "nslookup": "Look up", "host": "Look up", "ping": "Ping", "traceroute": "Trace the way to"}
CLOUDS = ("aws", "gcloud", "az", "helm", "terraform", "tofu", "flyctl", "vercel", "netlify", "heroku", "wrangler")
CLOUD_VERBS = names(
    "create delete list describe show deploy update set get add remove ssh start stop restart login run-now"
)
MAX_OBJECTS = 3
PLACES = {
    "--context": "context", "--kube-context": "context", "-n": "namespace", "--namespace": "namespace",
    "--profile": "profile", "--project": "project", "--subscription": "subscription", "-g": "group",
    "--resource-group": "group", "--region": "region", "--cluster": "cluster", "--replicas": "replicas",
    "--workspace": "workspace", "-target": "target", "-a": "app", "--app": "app", "-R": "repository",
    "--repo": "repository",
}  # fmt: skip
PRODUCTION = re.compile(r"(?<![a-z])(?:prod|production|live|prd)(?![a-z])", re.IGNORECASE)
HOST = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])")
URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/\s]*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?:[:/?].*)?")


def objects(operands, verbs, texts):
    """Return what a command is about: its objects, where they are, and whether that is production."""
    at = operands.index(verbs[-1]) + 1 if verbs else 0
    objects = [text[:60] for text in operands[at : at + MAX_OBJECTS] if OPAQUE not in text]
    said = "".join(f" {text}" for text in objects)
    flags = [(flag, value) for flag, value in itertools.pairwise(texts) if flag in PLACES]
    flags += [tuple(text.split("=", 1)) for text in texts if text.partition("=")[0] in PLACES and "=" in text]
    flags = [(flag, value) for flag, value in flags if flag != "-n" or texts[:1] != ["group"]]
    said += "".join(f", {PLACES[flag]} {value[:40]}" for flag, value in flags if OPAQUE not in value)
    production = any(PRODUCTION.search(text) for text in texts)
    return said + (" in production" if production else "")


def gh_title(verbs):
    """Return the headline of a `gh` command that changes something."""
    act = GH.get(" ".join(verbs[:2]))
    what = verbs[2][:60] if len(verbs) > 2 and OPAQUE not in verbs[2] else ""
    if verbs[:2] == ["pr", "ready"] and what:
        return f"Mark pull request {what} as ready (gh)"
    if act:
        return f"{act} {what if verbs[1] != 'create' or verbs[0] in ('release', 'repo') else ''}".strip() + " (gh)"
    return f"Run gh {' '.join(verbs[:2])} (remote)"


def connects(name, texts, tier="high", given=""):
    """Return the effect of a program that contacts other machines by a protocol of its own.

    `given`: the statements that a database shell reads from its input or from a file.
    """
    host = host_of_words(name, texts)
    says = f"connects to {host} with {name}" if host else f"talks to other machines with {name}"
    loses = name in DATABASES and changes_data(";".join(filter(None, (_statements(name, texts), given))))
    return Effect("remote", says, tier, "no", target=host, title=raw_title(name, texts, host, given), loses=loses)


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


def _statements(name, texts):
    """Return the SQL among a database shell's words; "" if it also reads a file of statements."""
    flags = STATEMENT_FLAGS.get(name, ())
    if not flags or any(text.split("=")[0] in ("-f", "--file", "-v", "--set", "--variable") for text in texts):
        return ""
    found = [value for flag, value in itertools.pairwise(texts) if flag in flags]
    found += [text.partition("=")[2] for text in texts if text.startswith(tuple(f"{flag}=" for flag in flags[1:]))]
    return ";".join(found)


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


def raw_title(name, texts, host, given=""):
    """Return the headline of a program that contacts other machines."""
    if name in CLOUDS:
        operands = operands_of(name, texts)
        verbs = [text for text in operands or [] if re.fullmatch(r"[a-z][a-z0-9-]*", text)]
        size = {"aws": 2}.get(name, 1)
        if name in ("gcloud", "az"):
            # Groups nest; the verb ends them, and names follow it.
            size = next((number for number, verb in enumerate(verbs, 1) if verb in CLOUD_VERBS), 1)
        return f"Run {' '.join([name, *verbs[:size]])}{objects(operands or [], verbs[:size], texts)} (remote)"
    if name == "ssh" and host:
        return f"Run a command on {host} (ssh)" if len(_operands(texts, SSH_VALUES)) > 1 else f"Open a shell on {host}"
    if name in ("scp", "rsync", "sftp") and host:
        last = texts[-1]
        return f"Copy files {'to' if ':' in last else 'from'} {host} ({name})"
    statements = ";".join(filter(None, (_statements(name, texts), given)))
    if name in DATABASES and (said := sql_title(statements)):
        return f"{said} ({name}{f' on {host}' if host else ''})"
    if name in DATABASES:
        return f"Connect to the database on {host} ({name})" if host else f"Connect to a database ({name})"
    if name in LOOKUPS and host:
        return f"{LOOKUPS[name]} {host}"
    if name == "twine" and texts[:1] == ["upload"]:
        return "Publish a package (twine)"
    if host:
        return f"Connect to {host} ({name})"
    return f"Run {name} (remote)" if name != "openssl" else "Run openssl"
