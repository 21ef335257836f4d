"""Headlines of everyday git commands: what is staged, what is committed, which branch is next."""

from .programs.git import GLOBAL
from .programs.git_changes import LOCAL
from .programs.grammar import read_arguments
from .shell_words import OPAQUE

LONGEST = 60
FORCED = {"-f": "--force", "--force": "--force", "-n": "--no-verify", "--no-verify": "--no-verify"}


def git_headline(words) -> str:
    """Return what the words after `git` do, or "" if their grammar alone does not tell."""
    rest = list(words)
    while rest and rest[0].text in GLOBAL:
        rest.pop(0)
    verb = rest.pop(0).text if rest else ""
    if verb not in SAYS:
        return ""
    arguments, problems = read_arguments(LOCAL[verb], rest)
    loud = [argument.option for argument in arguments if argument.kind == "loud"]
    flags = {word.text.split("=")[0] for word in rest if word.text.startswith("-")}
    if problems or flags & {"--dry-run", "-N", "--intent-to-add", "-p", "--patch"} or not FORCED.keys() >= set(loud):
        return ""
    values = {each.option: each.word.text for each in reversed(arguments) if each.option and each.kind != "loud"}
    says = SAYS[verb](flags, values, [argument.word for argument in arguments if not argument.option])
    return says and says + "".join(f" ({flag})" for flag in dict.fromkeys(FORCED[option] for option in loud))


def _commit(flags, values, operands):
    act = "Amend the last commit" if "--amend" in flags else "Commit"
    message = values.get("-m") or values.get("--message") or ""
    # The agent's text stays between the quotation marks, so it must not contain any.
    line = " ".join(message.translate({ord(mark): "'" for mark in '“”"'}).strip().partition("\n")[0].split())
    if not line or OPAQUE in line:
        return act
    return f"{act}{':' if '--amend' in flags else ''} “{line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'}”"


def _stage(flags, values, operands):
    if "-n" in flags:
        return ""
    if not operands:
        tracked = "-u" in flags or "--update" in flags
        return "Stage all changes to tracked files" if tracked else "Stage all changes"
    if any(word.opaque or word.glob for word in operands):
        return "Stage files"
    if len(operands) > 1:
        return f"Stage {len(operands)} paths"
    return "Stage the current folder" if operands[0].text == "." else f"Stage {operands[0].text[:LONGEST]}"


def _check_out(flags, values, operands):
    """Return the headline of a checkout. A single word may be a branch or a file: *Check out* fits both."""
    if "-b" in values:
        return _new_branch(values["-b"])
    if len(operands) != 1 or OPAQUE in operands[0].text:
        return ""
    return f"Check out {_branch(operands[0].text)}"


def _switch(flags, values, operands):
    new = values.get("-c") or values.get("--create")
    if new:
        return _new_branch(new)
    if len(operands) != 1 or OPAQUE in operands[0].text or values:
        return ""
    if flags & {"-d", "--detach"}:
        return f"Check out {operands[0].text[:LONGEST]}"
    name = operands[0].text
    return f"Switch to {'' if name == '-' else 'branch '}{_branch(name)}"


def _new_branch(name):
    return "" if OPAQUE in name else f"Switch to new branch {name[:LONGEST]}"


def _branch(name):
    return "the previous branch" if name == "-" else name[:LONGEST]


SAYS = {"commit": _commit, "add": _stage, "stage": _stage, "checkout": _check_out, "switch": _switch}
