"""Find the images a Dockerfile needs, so that a build never pulls: the classic builder pulls missing ones itself."""

import re
from pathlib import Path

from ..base import Build, DriverError

REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*://|^git@", re.IGNORECASE)
# ARG names in an image's name, as Docker reads them: $NAME, ${NAME}, ${NAME:-default}.
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}$]*))?\})")


def bases(build: Build) -> list[str]:
    """Return the images that must exist locally.

    DriverError if the build needs the network, or if the name of an image or the target stage cannot be worked out.
    """
    path = _dockerfile_of(build)
    stages, found, arguments = set(), [], {}
    for number, words in _until_target(build, path):
        instruction, rest = words[0].upper(), [word for word in words[1:] if not word.startswith("--")]
        flags = dict(word[2:].partition("=")[::2] for word in words[1:] if word.startswith("--"))
        asked = None
        if instruction == "ARG" and not stages and not found:  # only those before the first FROM count in its name
            name, _, default = rest[0].partition("=") if rest else ("", "", "")
            arguments[name] = build.args.get(name, default.strip("\"'"))
        if instruction == "FROM" and rest:
            asked = _filled(rest[0], arguments)
        elif instruction in ("COPY", "RUN", "ADD"):
            asked = flags.get("from")
        if asked and "$" in asked:
            raise DriverError(f"{build.dockerfile}, line {number}: write out the image instead of {asked}.")
        if asked and asked.lower() not in stages and asked != "scratch" and not asked.isdecimal():
            found.append(asked)
        if instruction == "FROM" and len(rest) == 3 and rest[1].upper() == "AS":
            stages.add(rest[2].lower())
        if instruction == "ADD" and any("$" in word or REMOTE.match(word.strip('[",')) for word in rest[:-1]):
            raise DriverError(f"{build.dockerfile}, line {number}: ADD from an address needs a network.")
    return list(dict.fromkeys(found))


def _dockerfile_of(build: Build) -> Path:
    path = build.context / build.dockerfile
    inside = path.resolve().is_relative_to(build.context.resolve())
    if not inside or path.is_symlink() or not path.is_file():
        raise DriverError(f"There is no file {build.dockerfile} in {build.context}.")
    return path


def _until_target(build: Build, path: Path) -> list[tuple[int, list[str]]]:
    """Return the (line number, words) of the instructions up to the end of the target stage."""
    taken, reached = [], not build.target
    for number, words in _instructions(path.read_text(errors="replace")):
        if words[0].upper() == "FROM":
            if reached and build.target:
                break
            reached = reached or (len(words) >= 4 and words[-1].lower() == build.target.lower())
        taken.append((number, words))
    if not reached:
        raise DriverError(f"{build.dockerfile} has no stage named {build.target}.")
    return taken


def _filled(name: str, arguments: dict[str, str]) -> str:
    def value(match) -> str:
        known = arguments.get(match[1] or match[2])
        return known or (match[3] if match[3] is not None else match[0])

    return VARIABLE.sub(value, name)


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
