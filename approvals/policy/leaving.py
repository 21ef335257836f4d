"""What publishes or deploys, by the name of the script, the task or the module that a command runs.

Nobody reads what such a script does, so its name decides, whatever starts it: a shell, an interpreter, a task runner.
"""

import re

from . import impacts
from .programs.registry import HANDLERS
from .programs.tables import BUILDS, READS, WRITES
from .rules import SHELLS, WRAPPERS
from .shell_words import OPAQUE, names

DEED = re.compile(
    r"(?:re|un|pre|auto|do)?(?:deploy\w{0,5}|publish(?:er|ing)?|release[rs]?|upload(?:er)?|push|destroy|rollout|rollback"
    r"|promote|ship)"
)
OTHERWISE = names("test tests spec check lint notes note changelog docs doc md txt json html dryrun preview")
SCRIPT = re.compile(r"[\w./:@+-]+")
ENDING = re.compile(
    r"\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|mts|rb|php|pl|lua|ps1|cmd|bat|exs|jl|r|kts|groovy|ya?ml)$", re.I
)
MAKES = ("make", "gmake", "nox", "tox")
CALM = names("test tests t check c lint build b fmt format bench clippy doc docs typecheck")
DRY = names("-n --dry-run --just-print --recon")
STARTING = ("start", "unknown", "run")
# Programs whose words name what a service or a repository does; their own handlers know which of it leaves.
KNOWN = names(
    "git docker podman kubectl gh helm terraform tofu aws gcloud az pip pip3 curl wget sqlite3 psql test [ [["
)


def says_so(name):
    """Return True if the name of a script or task says that it publishes or deploys."""
    if not SCRIPT.fullmatch(name) or name.startswith("-"):
        return False
    last = name.rstrip("/").rpartition("/")[2]
    if "." in last.lstrip(".") and not ENDING.search(last) and ":" not in last:
        return False  # a file of another kind, such as release.md
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", last)
    parts = [part.lower() for part in re.split(r"[^A-Za-z0-9]+", spaced) if part]
    return any(map(DEED.fullmatch, parts)) and not OTHERWISE & set(parts)


def effects_of_name(words, effects):
    """Return one more effect if a command runs something whose name says so."""
    words = _without_wrappers(words)
    if not words or not any(effect.kind in STARTING for effect in effects):
        return []
    program = words[0].text.rpartition("/")[2]
    if program in KNOWN or program in READS or program in WRITES or (program in BUILDS and program not in MAKES):
        return []
    if program in ("make", "gmake") and DRY & {word.text for word in words[1:] if word.literal}:
        return []  # it prints what it would do
    named = next((text for text in _named(words, program) if says_so(text)), "")
    if not named:
        return []
    says = f"runs {named[:60]}, whose name says that it publishes or deploys"
    return [impacts.starts(says, named, held="asks")]


def _named(words, program):
    """Yield the words that may name what is run: the program itself, its script or task, and what that is told."""
    texts = [word.text for word in words if OPAQUE not in word.text]
    if not texts or (program in SHELLS and "-n" in texts[1:2]):
        return
    yield texts[0]
    operands, most = [], 3 if program not in HANDLERS else 2
    for text in texts[1:]:
        if text == "--":
            break
        if text in ("-c", "-e", "--eval", "--test") and program not in MAKES:
            return
        if text == "-m" and program.startswith("python"):
            yield "".join(texts[texts.index("-m") + 1 :][:1]).rpartition(".")[2]
            return
        if not text.startswith("-"):
            operands.append(text)
    if operands[:1] in (["exec"], ["run"]):
        most = 4
    at = next((at + 1 for at, text in enumerate(operands) if text in CALM), most)
    yield from operands[: min(most, at)]


def _without_wrappers(words):
    words = list(words)
    while len(words) > 1 and words[0].text in WRAPPERS - {"ssh", "source", "."}:
        at = next((at for at, word in enumerate(words[1:], 1) if not _of_wrapper(word.text)), len(words))
        words = words[at:]
    return words


def _of_wrapper(text):
    return text.startswith("-") or re.fullmatch(r"\w+=.*|[\d.]+[smhd]?", text) is not None
