"""Add the acting words of a command to its effects: they give its headline, and the tier that similar clients have.

Every program passes here, known or not, so that none is told by its name alone.
"""

import re
import shlex
from dataclasses import replace

from ..shell_words import OPAQUE, names
from ..verdict import TIERS, Effect
from . import acts, clients, given
from .sql_titles import changes_data, sql_title
from .tables import READS, WRITES
from .text_titles import address_shown, amounts_in, mongo_title, program_title

# Programs that are told by what they do to files, or by their own headlines.
OWN_WORDS = names("git cd echo printf : true false test [ [[ curl wget export set read exit return wait kill")
RUNTIMES = names("python python2 python3 pypy pypy3 node deno bun ruby perl php lua Rscript julia elixir")
TEXT_FLAGS = names("-c -e --eval -p --print -E -r -pe -ne -lc")
RUNNERS = names("runner shell shell_plus tinker eval console dbshell")
HTTP = names("http https xh xhs httpie curlie")
METHOD = re.compile(r"POST|PUT|PATCH|DELETE")
SITE = re.compile(r"https?://|:\d*/|[\w-]+\.[\w.-]+(?:[:/].*)?$|localhost")
ITEM = re.compile(r"[\w.\[\]-]+(?::=|==?|:|@).*")
TELLING = ("unknown", "start", "remote", "harmful")
CHANGING = ("remote", "harmful")


def weighed(name, words, simple, judge, found, shown=""):
    """Return the effects of a program with the headline that its acting words give, and no less weight than theirs."""
    if name in OWN_WORDS or name in READS or name in WRITES or name in judge.world.trusted_programs:
        return found
    texts = [word.text for word in words]
    said, loses = _text_deed(name, texts, simple, judge)
    act = acts.act_of(name, texts)
    act.shown = shown[:60] or act.shown
    act.production = act.production or any(_names_production(value) for _, value in simple.assigns)
    if name in HTTP:
        return _request(texts, act, found)
    found = [_runs_package(effect, act) if effect.kind == "install" else effect for effect in found]
    found = _with_act(act, said, loses, found)
    inner = _inner(name, texts)
    return found if inner is None else _with_inner(inner, act, found)


def _names_production(value):
    return value is not None and acts.PRODUCTION.search(value.text) is not None


def _with_act(act, said, loses, found):
    known = act.name in clients.SERVICES or (act.name in clients.TASKS and act.production)
    loses = loses or act.loses
    tier = "critical" if act.name in clients.SERVICES and acts.loses_all(act) else "high"
    own = next((effect.title for effect in found if effect.kind in TELLING and effect.title), "")
    if known and (act.loses or act.publishes) and not any(effect.kind in CHANGING for effect in found):
        says = (
            f"{'deletes something' if act.loses else 'changes something'} with {' '.join([act.name, *act.path])[:80]}"
        )
        found = [*found, Effect("remote", says, "high", "no", spelled=tuple(act.path), title=own)]
    headline = f"{said} ({_by(act)})" if said and not said.startswith(f"Run {act.name}") else said
    titled = []
    for effect in found:
        if effect.kind not in TELLING or TIERS.index(effect.tier) < TIERS.index("high"):
            titled.append(effect)
            continue
        if effect.kind in CHANGING and TIERS.index(effect.tier) < TIERS.index(tier):
            effect = replace(effect, tier=tier)
        suffix = " (remote)" if effect.kind == "remote" else ""
        title = effect.title or headline or acts.title(act, suffix)
        titled.append(replace(effect, title=title, loses=effect.loses or loses))
    return titled


def _runs_package(effect, act):
    """Return the effect of a package's program under a headline that says what that one is told to do."""
    named = effect.title == f"Fetch and run {act.operands[0]} ({act.name})" if act.operands else False
    production = " in production" if act.production else ""
    return replace(effect, title=f"Fetch and run {acts.words_of(act)}{production} ({act.name})") if named else effect


def _by(act):
    """Return how the program of a text is named behind its headline: with what it was started through."""
    words = [text for text in act.operands[:3] if acts.VERB.fullmatch(text) and not sql_title(text)]
    through = act.name in clients.AROUND or act.name in clients.SERVICES
    return " ".join([act.name[:40], *(words if through else [])])[:80] + (" in production" if act.production else "")


def _text_deed(name, texts, simple, judge):
    """Return (headline, whether it loses data) of statements or program text that the program is given."""
    if name in RUNTIMES and not RUNNERS & {*texts[:3]}:
        at = next((at for at, text in enumerate(texts[:-1]) if text in TEXT_FLAGS), None)
        script = [text for text in texts if not text.startswith("-")]
        text = texts[at + 1] if at is not None else "" if script else given.given([], simple, judge)
        text = text or (given.text_of(script[0], judge) if script and at is None else "")
        said, loses = program_title(text)
        before = [text for text in texts[:at] if not text.startswith("-")] if at else []
        through = " ".join(["Run", name, *(before or (script[:1] if at is None else texts[at : at + 1]))])
        return (f"{through}: {said[:1].lower() + said[1:]}", loses) if said else ("", False)
    runs_sql = name in clients.SQL_SHELLS or "sql" in name or "db" in name
    around = name in clients.AROUND or name in clients.SERVICES or name in clients.TASKS
    held = [text for text in texts if " " in text] if runs_sql or around else []
    held += given.statements(texts)
    held = [each for text in held for each in _inside(text) or [text]]
    if RUNNERS & {*texts[:3]} or name in clients.TASKS:
        said, loses = program_title(" ".join(texts[1:]))
        if said:
            return said, loses
    held += [given.given(texts, simple, judge)] if name not in ("gh", "glab", "ssh") else []
    if name == "redis-cli":
        return "", False  # told by its own handler
    statements = ";".join(dict.fromkeys(filter(None, held)))
    if (said := sql_title(statements)) and (runs_sql or given.statements(texts) or changes_data(statements)):
        return said, changes_data(statements)
    return mongo_title(statements) if "mongo" in " ".join([name, *texts[:4]]) else ("", False)


def _inside(text):
    """Return the statements of a database's shell that a text starts: those of `psql -c '…'`."""
    try:
        words = shlex.split(text) if text.split(" ")[0].rpartition("/")[2] in clients.SQL_SHELLS else []
    except ValueError:
        return []
    return [*given.statements(words), *(word for word in words[1:] if " " in word)]


def _request(texts, act, found):
    """Return the effects of a client of HTTP such as httpie: what it sends, and where to."""
    operands = act.operands
    named = next((text for text in operands if re.fullmatch(r"[A-Z]{3,7}", text)), "")
    at = operands.index(named) + 1 if named else next((at for at, text in enumerate(operands) if SITE.match(text)), 0)
    address, items = operands[at : at + 1], operands[at + 1 :]
    sends = [text for text in items if ITEM.fullmatch(text) and not re.match(r"[\w-]+(?:==|:(?!=))", text)]
    method = named or ("POST" if sends else "GET")
    where = address_shown(address[0]) if address and OPAQUE not in address[0] else ""
    title = f"Send a {method} request" + (f" to {where}" if where else "") + amounts_in(items) + f" ({act.name})"
    if METHOD.fullmatch(method):
        effect = Effect("remote", title[:1].lower() + title[1:], "high", "no", spelled=tuple(operands[:1]), title=title)
        found = [*found, replace(effect, says=f"sends a {method} request", loses=method == "DELETE")]
    return [replace(effect, title=effect.title or title) if effect.kind == "unknown" else effect for effect in found]


def _inner(name, texts):
    """Return the Act of the program that another one starts; None if there is none that is known."""
    if name not in clients.AROUND:
        return None
    known = clients.SERVICES | clients.TASKS | clients.LOSING_PROGRAMS
    for at, text in enumerate(texts[:8]):
        program = text.rpartition("/")[2].partition("@")[0]
        if program in known and program not in clients.REGISTRIES and (at or name not in ("docker", "podman")):
            return acts.act_of(program, texts[at + 1 :])
    return None


def _with_inner(inner, outer, found):
    """Return the effects with what the inner program does beyond them, under the headline of both."""
    inner.production = inner.production or outer.production
    weighs = inner.loses or inner.publishes
    if not weighs or not (inner.name in clients.SERVICES or inner.production):
        return [replace(effect, loses=True) if effect.kind in TELLING and inner.loses else effect for effect in found]
    title = acts.title(inner, f" ({outer.name})")
    critical = inner.name in clients.SERVICES and acts.loses_all(inner)
    says = f"{'deletes something' if inner.loses else 'changes something'} with {inner.name[:40]}"
    spelled, tier = (inner.name, *inner.path), "critical" if critical else "high"
    return [*found, Effect("remote", says, tier, "no", spelled=spelled, title=title, loses=inner.loses)]
