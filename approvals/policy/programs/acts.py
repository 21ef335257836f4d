"""The acting words of a command: its sub-command, what it acts on and where, whatever the program is.

A headline names them, so that no command is told by the name of its program alone, and the client of a service that
deletes or publishes by them is judged as its brothers are.
"""

import re
from dataclasses import dataclass, field

from ..shell_words import OPAQUE
from . import clients
from .verbs import GLOBAL_FLAGS, GLOBAL_VALUES

PRODUCTION = re.compile(r"(?<![a-z])(?:prod|production|live|prd)(?![a-z])", re.IGNORECASE)
VERB = re.compile(r"[A-Za-z][\w:.-]*")
PARTS = re.compile(r"[:_.\-]|(?<=[a-z])(?=[A-Z])")
SECRET_NAME = re.compile(
    r"(?i)token|secret|passw|passphrase|api_?-?key|auth(?!or)|credential|cookie|session|bearer|pwd"
)
SECRET = re.compile(r"(?i)^(?:sk|rk|pk|whsec|gh[oprsu]|github_pat|xox[a-z]|akia|eyj|glpat|ya29|npm)[-_.]?[-_.\w]{12}")
SECRET_LENGTH = 40  # letters and digits in one go from which a word may be a key
ENDS = clients.names("destroy uninstall delete del un remove terminate down teardown purge")
LONGEST, MAX_OBJECTS, MAX_DETAILS, MAX_PATH = 60, 3, 4, 7
MAX_INNER = 6  # words of a program that another one starts


@dataclass
class Act:
    """The words of a command by role: sub-command and objects in `operands`, targets in `places`, rest in `details`."""

    name: str
    shown: str = ""  # the name as the headline has it
    operands: list = field(default_factory=list)
    places: list = field(default_factory=list)
    details: list = field(default_factory=list)
    flags: list = field(default_factory=list)  # that act, or widen what is done
    others: list = field(default_factory=list)  # further options, without their values
    inner: list = field(default_factory=list)  # the words after `--`
    texts: list = field(default_factory=list)  # values of options that are given to be carried out
    verb_at: int = -1  # the operand that loses or publishes something
    loses: bool = False
    publishes: bool = False
    production: bool = False
    secret: bool = False

    @property
    def path(self):
        """Return the operands up to the verb, or those that may be sub-commands."""
        return self.operands[: self.verb_at + 1]


def act_of(name, texts):
    """Return the Act of a program's words."""
    act = Act(name, name[:40], production=any(PRODUCTION.search(text) for text in texts))
    rest, valued = list(texts), GLOBAL_VALUES.get(name, frozenset())
    short = clients.SHORT_PLACES.get(name, clients.OTHER_SHORT)
    while rest:
        text = rest.pop(0)
        if text == "--":
            act.inner = rest
            break
        if not text.startswith("-") or text == "-":
            act.operands.append(text)
            continue
        flag, equals, value = text.partition("=")
        label = clients.PLACES.get(flag, short.get(flag))
        if _acts(flag) or flag in clients.TOLD:
            act.flags.append(text if equals and not SECRET_NAME.search(flag) else flag)
        if equals:
            _place(act, flag, label, value)
        elif _takes_value(flag, label, valued, rest, act.operands):
            _place(act, flag, label, rest.pop(0))
        elif flag not in act.flags and re.fullmatch(r"-[A-Za-z]{1,2}|--[a-z-]+", flag):
            act.others.append(flag)
    _weigh(act)
    return act


def _takes_value(flag, label, valued, rest, operands):
    if not rest or (rest[0].startswith("-") and rest[0] != "-"):
        return False
    if label is not None or flag in valued or flag in clients.STATEMENTS:
        return True
    if flag.startswith("--") and not flag.startswith("--no-") and SECRET_NAME.search(flag):
        return True
    is_plain = flag in clients.FLAGS or flag in GLOBAL_FLAGS or flag.startswith(("--no-", "--skip-"))
    return flag.startswith("--") and not is_plain and bool(operands)


def _place(act, flag, label, value):
    if label:
        act.places.append((label, value))
    elif flag in clients.STATEMENTS:
        (act.texts if " " in value else act.flags).append(value if " " in value else flag)
    elif label is None and flag.startswith("--"):
        act.details.append((flag.strip("-"), value))


def _acts(flag):
    parts = PARTS.split(flag.lstrip("-").lower())
    single = re.fullmatch(r"-(?:rmr?|rmdir|expunge)", flag) is not None  # of hdfs and its like
    return single or (parts[:1] != ["no"] and bool(clients.LOSING & {parts[0], parts[-1]}))


def _weigh(act):
    """Note the operand that loses or publishes something, and what it does."""
    _by_kind_of_client(act)
    for at, text in enumerate(act.operands[:MAX_PATH]):
        deed = _deed(act.name, act.operands[: at + 1], text)
        if deed == "loses" or (deed and act.verb_at < 0):
            act.verb_at, act.loses, act.publishes = at, deed == "loses", act.publishes or deed == "publishes"
        if act.loses:
            break
    if any(map(_acts, act.flags)) or act.name.startswith("drop"):
        act.loses, act.publishes = True, False
    if act.name in clients.INFRASTRUCTURE and clients.PREVIEWS & {*act.operands[:1]}:
        act.loses = act.publishes = False
    if act.verb_at < 0:
        act.verb_at = next((at for at, text in enumerate(act.operands[:3]) if text in clients.ORDINARY), -1)
    path = act.operands[: max(act.verb_at + 1, 2)]
    act.secret = any(clients.SECRET_PATH & {text.lower(), *PARTS.split(text.lower())} for text in path)


def _by_kind_of_client(act):
    """Mark as publishing each call of a payment client that does not only read, and each one with `--prod`."""
    reads = bool(clients.READING & {text.lower() for text in act.operands})
    act.publishes = act.name in clients.MONEY and bool(act.operands[1:]) and not reads
    if act.name in clients.SERVICES and {"--prod", "--production"} & {*act.others} and not reads:
        act.publishes = True


def _deed(name, path, text):
    """Return "loses", "publishes" or "" for a word of a command, by its beginning or its end: `pg:reset`."""
    if not VERB.fullmatch(text):
        return ""
    if (verbs := clients.REGISTRIES.get(name)) is not None:
        said = text if len(path) == 1 or path[0] == "npm" else ""
        return "" if said not in verbs else "loses" if said in clients.LOSING_OF_KNOWN else "publishes"
    parts = PARTS.split(text.lower())
    ends = {parts[0], parts[-1], text.lower()}
    known = name in clients.SERVICES or name in clients.TASKS or name in ("docker", "podman")
    if ends & (clients.LOSING_OF_KNOWN if known else clients.LOSING):
        return "loses"
    return "publishes" if ends & clients.PUBLISHING else ""


def loses_all(act):
    """Return True if a service's client deletes a whole with all its parts: a stack, a project, an app, a namespace."""
    if not act.loses:
        return False
    if act.name in clients.INFRASTRUCTURE:
        said = {*act.path[-1:], *(flag.lstrip("-") for flag in act.flags)}
        return bool(said & ENDS) and "state" not in act.operands
    if act.verb_at < 0:
        return False
    path, after = act.path, act.operands[act.verb_at + 1 :]
    nouns = {text.lower() for text in path} | {part for text in path for part in text.lower().split(":")}
    nouns.add("-".join(re.split(r"[-_]", path[-1].lower())[1:]))  # delete-stack
    if len(path) == 1 and (after[1:] or "/" in "".join(after[:1])):  # delete ns prod
        nouns |= {text.partition("/")[0].lower() for text in after[:1]}
    return bool(nouns & clients.WHOLES) or {"sql", "instances"} <= nouns


def words_of(act):
    """Return the acting words as a headline names them: `delete ns prod, context main`; without what may be secret."""
    limit = 1 if act.secret else MAX_INNER if act.name in clients.AROUND else MAX_OBJECTS
    limit = 0 if clients.LOGINS & {text.lower() for text in act.operands[:2]} else limit
    cut = act.verb_at + 1 if act.verb_at >= 0 else 1
    shown = [_shown(text, act.secret and at >= cut) for at, text in enumerate(act.operands[: cut + limit])]
    left = len(act.operands) - cut - limit
    said = " ".join(filter(None, shown)) + (f" and {left} more" if left > 0 and not act.secret else "")
    flags = act.flags if act.operands[cut:] else [*act.flags, *act.others[:MAX_DETAILS]]
    said = " ".join(filter(None, [said, *dict.fromkeys(flags)]))
    details = [*act.places, *([] if act.secret else act.details[:MAX_DETAILS])] if limit else []
    listed = [f"{label} {_shown(value)}" for label, value in details if not SECRET_NAME.search(label) and _shown(value)]
    inner = f" -- {' '.join(filter(None, map(_shown, act.inner[:6])))}" if act.inner and not act.secret else ""
    carried_out = "".join(f": {_shown(text)}" for text in act.texts[:1] if not act.secret)
    return said + "".join(f", {each}" for each in listed) + inner + carried_out


def shown_words(words):
    """Return a command that runs elsewhere, as a headline may hold it: its first words, without what may be secret."""
    listed = " ".join(filter(None, map(_shown, words[:8])))
    return listed[: LONGEST + 20] + (" …" if len(words) > 8 else "")


def _shown(text, secret=False):
    """Return a word as a headline may hold it; "" for one that is not known, "…" in place of what may be a secret."""
    text = " ".join(text.split())
    if not text.strip(OPAQUE + " ") or not text.isprintable():
        return ""
    text = re.sub(r"(\w+://)[^/@\s]*@", r"\1", text)
    key, equals, value = text.partition("=")
    if equals and VERB.fullmatch(key) and (secret or SECRET_NAME.search(key)):
        return f"{key}=…"
    longest = max((len(each) for each in re.findall(r"[A-Za-z0-9+]+", text)), default=0)
    if SECRET.match(value or key) or longest >= SECRET_LENGTH:
        return "…"
    return text[: LONGEST - 1] + "…" if len(text) > LONGEST else text


def title(act, suffix=""):
    """Return the headline of a command by the words that it consists of."""
    production = " in production" if act.production else ""
    return f"{' '.join(filter(None, ['Run', act.shown, words_of(act)]))}{production}{suffix}".replace(" ,", ",")
