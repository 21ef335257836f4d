"""Values of a tool's arguments as a title may hold them: plain, short, and nothing that may be secret."""

import re
import unicodedata

from .field_names import role_of
from .hidden_characters import hidden_in

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
# Signs of a value in a title beside letters, marks and digits of any script: none can end a quoted part.
SIGNS = frozenset(" .,@/#+:~*-_'’–—…!?&%=€$£¥·・、。：！？「」『』【】ー⟨⟩")
MIXED = ("LATIN", "CYRILLIC", "GREEK")  # whose letters look alike, so that a word has those of one only
MAX_VALUE, MIN_CUT = 60, 4
MAX_READ, MAX_FIELDS = 300, 100  # characters of a value, and arguments, that are looked at
# Arguments and values that may be secrets: titles go to the log, from which nothing can be removed.
SECRET_NAME = re.compile(r"(?i)token|secret|passw|api_?key|auth(?!or)|credential|cookie|session|signature|bearer")
SECRET_VALUE = re.compile(r"(?i)^(?:sk|rk|pk|whsec|gh[oprsu]|github_pat|xox[a-z]|akia|eyj|glpat|ya29)[-_.A-Za-z0-9]{8}")
STACKED = re.compile(
    r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{3}"
)  # marks that cover what stands around them
KEY = re.compile(r"[\w+=~.-]{40,}", re.ASCII)  # a word that is so long may be one


def plain_value(key, value):
    """Return a value as it may stand in a title; "" if it may be a secret, or is not plain."""
    if isinstance(value, bool) or (SECRET_NAME.search(key) and not key.lower().endswith("name")):
        return ""
    if isinstance(value, int | float):
        return f"{value}" if len(f"{value}") <= 20 else ""
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        first = plain_value(key, value[0])
        return f"{first} and {len(value) - 1} more" if first and len(value) > 1 else first
    return _plain_text(value) if isinstance(value, str) else ""


def _plain_text(value):
    value = marked(value if len(value) <= MAX_READ else value[:MAX_READ].rstrip())
    if not _is_plain(value) or SECRET_VALUE.match(value) or KEY.search(value):
        return ""
    return value if len(value) <= MAX_VALUE else value[: MAX_VALUE - 1].rstrip() + "…"


def quoted(key, value):
    """Return a text in quotation marks, up to the first sign that could end them; "" if it is not plain before it."""
    text = plain_value(key, value)
    if not text and isinstance(value, str):
        text = plain_value(key, _beginning(value))
        text = f"{text.rstrip('…')}…" if len(text) >= MIN_CUT else ""
    return f'"{text}"' if text else ""


def _beginning(value):
    """Return the text before the first sign that no title has, or before two blanks."""
    value = marked(value[:MAX_READ])
    kept = next((at for at, char in enumerate(value) if not _stands(char) or value[at : at + 2] == "  "), len(value))
    return value[:kept].rstrip()


def unquoted(key, value):
    """Return a value that stands without quotation marks, or with them where it could pass for a part of the title."""
    text = plain_value(key, value)
    if not text and isinstance(value, str):
        return quoted(key, value)
    return f'"{text}"' if isinstance(value, str) and re.search(r"[\s,]", text) else text


def named_fields(given):
    """Return {role: [(field, its value as it may stand in a title)]} of arguments, those in objects one level down."""
    found = {}
    for key, value in list(given.items())[:MAX_FIELDS]:
        if isinstance(value, dict):
            for name, inner in list(value.items())[:20]:
                _note(found, name, inner, role_of(name) or role_of(key))
        else:
            _note(found, key, value, role_of(key))
    return found


def _note(found, key, value, role):
    if role in ("amount", "currency", "statement") or not isinstance(key, str):
        return
    text = quoted(key, value) if role == "label" else unquoted(key, value)
    if text:
        found.setdefault(role, []).append((key, text))


def counted(given):
    """Return (number, field) of the longest list of records among the arguments; (0, "") if there is none."""
    lists = [(len(value), key) for key, value in given.items() if isinstance(value, list | tuple) and len(value) > 1]
    lists = [(count, key) for count, key in lists if NAME.fullmatch(key) and not isinstance(given[key][0], str)]
    return max(lists, default=(0, ""))


def marked(value):
    """Return a text with each hidden character named in its place, and each letter that looks like a Latin one."""
    if value.isascii() and value.isprintable():
        return value
    return "".join(_marked_word(word) for word in re.split(r"(\s+)", value))


def _marked_word(word):
    is_mixed = _mixes(word)
    return "".join(_named(char, is_mixed) for char in word)


def _named(char, is_mixed):
    looks_alike = is_mixed and unicodedata.name(char, "").startswith(("CYRILLIC", "GREEK"))
    return f"⟨U+{ord(char):04X}⟩" if looks_alike or hidden_in(char) else char


def _stands(char):
    return char in SIGNS or unicodedata.category(char)[0] in "LMN"


def _is_plain(value):
    """Return True for text of letters, digits and a few signs, in any script, and nothing that hides or reorders."""
    if not value or value != value.strip() or "  " in value or STACKED.search(value):
        return False
    starts = value[0] in "#@~/_.「『【⟨" or unicodedata.category(value[0])[0] in "LN"
    return starts and all(map(_stands, value))


def _mixes(word):
    """Return True for a word with letters of two scripts that look alike."""
    found = {unicodedata.name(char, "").split(" ")[0] for char in word if char.isalpha()}
    return len(found & set(MIXED)) > 1
