"""Evidence for package installs: names and versions as requested, and the sources if named."""

from approvals.policy.programs.packages import Wanted, wanted
from approvals.policy.shell_words import names

from .argv import after, is_known
from .findings import Finding

MANAGERS = names("pip pip3 pipx uv npm pnpm yarn bun npx apt apt-get cargo gem go brew dnf yum apk poetry composer")
MANAGERS |= names("bunx uvx conda dotnet")
LOCKED = (("npm", "ci"), ("pnpm", "--frozen-lockfile"), ("yarn", "--frozen-lockfile"), ("yarn", "--immutable"))


def install(place, step: dict) -> Finding:
    """Return the packages that a sub-command installs, removes or runs."""
    finding = Finding(step["line"], step["text"], [])
    found = after(_without_python(step["words"]), MANAGERS)
    asked = wanted(*found) if found else None
    if asked is None:
        finding.names = [name for name in step["names"] if is_known(name)]
        finding.says.append("Changes packages. Which versions is unknown until it runs.")
        return finding
    version = f" {asked.version}" if asked.version else ""
    finding.names = [f"{name}{version}" for name in asked.packages] + asked.files
    finding.says = _sentences(asked, found[1])
    return finding


def _without_python(words: list[str]) -> list[str]:
    """Strip `python -m`, so that `python -m pip` is treated as pip."""
    found = after(words, ("python", "python3"))
    return found[1][1:] if found and found[1][:1] == ["-m"] else words


def _sentences(asked: Wanted, words: list[str]) -> list[str]:
    says, number = [], len(asked.packages)
    counted = f"{number} {asked.program} package{'' if number == 1 else 's'}"
    if asked.verb == "run":
        says.append(
            f"Downloads {asked.packages[0]} unless it is installed, and runs it." if number else "Runs a package."
        )
    elif asked.verb == "remove":
        says.append(f"Removes {counted}.")
    elif number:
        says.append(f"Installs {counted} and {'its' if number == 1 else 'their'} dependencies.")
    says += [f"Installs the package in {path}." for path in asked.files if asked.verb == "install"]
    says += [f"Installs the packages listed in {name}." for name in asked.lists]
    if not (number or asked.files or asked.lists):
        says.append(f"Installs the project's dependencies ({asked.program}).")
    if asked.sources:
        says.append(f"From {', '.join(asked.sources)}.")
    if not asked.is_certain:
        says.append("It may install more packages than these.")
    if any(asked.program == program and word in words for program, word in LOCKED):
        says.append("Versions come from the lock file.")
    elif asked.verb != "remove" and (asked.lists or not asked.is_pinned):
        says.append("Versions not pinned.")
    return says
