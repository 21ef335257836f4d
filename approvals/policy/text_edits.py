"""Changes of a policy's text that keep the rest of it, comments and order too: a target, a block, a block less."""

import json
import re
import tomllib

from .verdict import PolicyError

HEADER = re.compile(r"(?m)^[ \t]*\[")
WHEN = re.compile(r"(?m)^[ \t]*\[\[[ \t]*when[ \t]*\]\][^\n]*\n?")
TARGETS = re.compile(r"(?m)^[ \t]*\[[ \t]*targets[ \t]*\][^\n]*\n?")


def with_target(text, name, entries):
    """Return the text with entries added to a target, which may be new. PolicyError where that cannot be done."""
    data = _read(text)
    table = data.get("targets", {})
    known = table.get(name, []) if isinstance(table, dict) else []
    listed = list(dict.fromkeys([*known, *entries]))
    line = f"{_key(name)} = {json.dumps(listed, ensure_ascii=False)}\n"
    head = TARGETS.search(text)
    if head is None:
        added = f"{_ended(text)}\n[targets]\n{line}"
    elif known:
        end = HEADER.search(text, head.end())
        stop = end.start() if end else len(text)
        table_text = text[head.end() : stop]
        # pattern: the names are escaped, and a list ends at its bracket
        found = re.search(
            rf"(?m)^[ \t]*(?:{re.escape(name)}|\"{re.escape(name)}\")[ \t]*=[ \t]*\[[^\]]*\][^\n]*\n?", table_text
        )
        changed = table_text[: found.start()] + line + table_text[found.end() :] if found else table_text
        added = text[: head.end()] + changed + text[stop:]
    else:
        added = _ended(text[: head.end()]) + line + text[head.end() :]
    return _checked(added, data | {"targets": table | {name: listed}})


def with_block(text, block):
    """Return the text with a block `[[when]]`, a dict of conditions and lists of rules."""
    data = _read(text)
    lines = "".join(f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in block.items())
    return _checked(f"{_ended(text)}\n[[when]]\n{lines}", data | {"when": [*data.get("when", []), block]})


def without_block(text, number):
    """Return the text without the block of this number, counted from 0."""
    data = _read(text)
    heads = list(WHEN.finditer(text))
    if not 0 <= number < len(heads):
        raise PolicyError("There is no such rule any more.")
    end = HEADER.search(text, heads[number].end())
    removed = text[: heads[number].start()] + (text[end.start() :] if end else "")
    left = [each for at, each in enumerate(data.get("when", [])) if at != number]
    return _checked(
        removed, {key: value for key, value in data.items() if key != "when"} | ({"when": left} if left else {})
    )


def _read(text):
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(f"The policy is not valid TOML: {error}.") from None


def _checked(text, wanted):
    """Return a changed text if it says what is wanted and nothing else."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = None
    if found != wanted:
        raise PolicyError("The text is written in a way that the form cannot change; edit it as text.")
    return text


def _key(name):
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _ended(text):
    return text if not text or text.endswith("\n") else f"{text}\n"
