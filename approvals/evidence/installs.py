"""What would be installed: names and versions as they are asked for, and from where if that is said."""

import re

from approvals.policy.words import names

from .findings import Finding
from .words import after, is_known, parse

MANAGERS = names("pip pip3 pipx uv npm pnpm yarn bun npx apt apt-get cargo gem go brew dnf yum apk poetry composer")
VERBS = {"install", "i", "add", "ci", "get", "tool", "require", "run", "update", "upgrade", "sync", "download", "pip"}
VERSIONS = ("-v", "--version", "--vers")
SOURCES = (
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--registry", "-s", "--source", "--git", "--index",
    "--path", "--default-index",
)  # fmt: skip
LISTS = ("-r", "--requirement", "--requirements", "-e", "--editable")
OTHERS = ("-c", "--constraint", "-t", "--target", "--prefix", "--features", "--python", "--tag", "--branch", "--rev")
SHORT_FOR = {  # letters that take a word, where it is not the same for all
    "pip": "irefct", "pip3": "irefct", "uv": "irefc", "gem": "vs", "apt": "t", "apt-get": "t", "cargo": "F",
}  # fmt: skip
EXACT = re.compile(r"(==|=|@)v?\d[\w.+:~-]*$")


def install(place, step: dict) -> Finding:
    finding = Finding(step["line"], step["text"], [])
    found = after(_without_python(step["words"]), MANAGERS)
    if found is None:
        finding.names = [name for name in step["targets"] if is_known(name)]
        finding.says.append("Installs packages; versions are chosen when it runs.")
        return finding
    program, words = found
    long = [name for name in (*VERSIONS, *SOURCES, *LISTS, *OTHERS) if name.startswith("--")]
    parsed = parse(words, (*long, *(f"-{letter}" for letter in SHORT_FOR.get(program, ""))))
    operands = parsed.operands
    while operands and operands[0] in VERBS and program != "npx":
        operands = operands[1:]
    packages = [name for name in operands if is_known(name)]
    versions = parsed.values(*VERSIONS)
    finding.names = [f"{name} {versions[-1]}" if versions else name for name in packages]
    _say(finding, program, parsed, packages, versions, unknown=len(packages) < len(operands))
    return finding


def _without_python(words: list[str]) -> list[str]:
    """`python -m pip` is pip."""
    found = after(words, ("python", "python3"))
    return found[1][1:] if found and found[1][:1] == ["-m"] else words


def _say(finding: Finding, program: str, parsed, packages: list[str], versions: list[str], *, unknown: bool):
    if packages:
        count = f"{len(packages)} package{'' if len(packages) == 1 else 's'}"
        finding.says.append(f"Installs {count} with {program}, and what they need.")
    if lists := parsed.values(*LISTS):
        finding.says.append(f"Installs what is named in {', '.join(lists)}.")
    if not packages and not lists:
        finding.says.append(f"Installs what the project's own files name for {program}.")
    if sources := parsed.values(*SOURCES):
        finding.says.append(f"From {', '.join(sources)}.")
    if unknown:
        finding.says.append("Installs more that is not known before it runs.")
    if lists or not (versions or (packages and all(EXACT.search(name) for name in packages))):
        finding.says.append("Versions are chosen when it runs.")
