"""Find the images a Dockerfile needs, so that a build never pulls: the classic builder pulls missing ones itself."""

import re
from pathlib import Path

from ..base import DriverError

NAME = "Dockerfile"
REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*://|^git@", re.IGNORECASE)


def bases(context: Path) -> list[str]:
    """Return the images that must exist locally; DriverError if the build needs the network or a name is a variable."""
    path = context / NAME
    if path.is_symlink() or not path.is_file():
        raise DriverError(f"There is no file {NAME} in {context}.")
    stages, found = set(), []
    for number, words in _instructions(path.read_text(errors="replace")):
        instruction, rest = words[0].upper(), [word for word in words[1:] if not word.startswith("--")]
        flags = dict(word[2:].partition("=")[::2] for word in words[1:] if word.startswith("--"))
        asked = None
        if instruction == "FROM" and rest:
            asked = rest[0]
        elif instruction in ("COPY", "RUN", "ADD"):
            asked = flags.get("from")
        if asked and "$" in asked:
            raise DriverError(f"{NAME}, line {number}: write out the image instead of {asked}.")
        if asked and asked.lower() not in stages and asked != "scratch" and not asked.isdecimal():
            found.append(asked)
        if instruction == "FROM" and len(rest) == 3 and rest[1].upper() == "AS":
            stages.add(rest[2].lower())
        if instruction == "ADD" and any("$" in word or REMOTE.match(word.strip('[",')) for word in rest[:-1]):
            raise DriverError(f"{NAME}, line {number}: ADD from an address needs a network, which a build has not.")
    return list(dict.fromkeys(found))


def _instructions(text: str):
    """Yield (line number, words) of each instruction, with continuation lines joined."""
    escape = "`" if re.match(r"\A(?:#.*\n)*#\s*escape\s*=\s*`", text) else "\\"
    joined, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        began = began or number
        if line.rstrip().endswith(escape):
            joined += line.rstrip()[:-1] + " "
            continue
        joined += line
        if words := joined.split():
            yield began, words
        joined, began = "", 0
