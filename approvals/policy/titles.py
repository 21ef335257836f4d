"""Headlines in plain words, derived from effects and never from the agent's own description."""

import re

from .git_titles import git_headline
from .programs.acts import shown_words
from .programs.verbs import GLOBAL_VALUES, operands_of
from .verdict import TIERS

MAX_PARTS = 3
LASTING = ("push", "remote", "install", "harmful", "network", "hidden")
# Verbs for programs named by what they do to their files.
ACTS = {"mkdir": "Create the folder", "touch": "Create", "chmod": "Change the mode of", "sed": "Edit", "ln": "Link"}
ACTS |= dict.fromkeys(("black", "isort", "ruff", "prettier", "gofmt", "rustfmt", "shfmt"), "Format") | {"eslint": "Fix"}
ACTS |= {"tar": "Pack", "zip": "Pack", "git init": "Make a repository in"}
ACTS |= {"git restore": "Restore", "git checkout": "Restore", "truncate": "Empty"}
RUNTIMES = {"python", "python2", "python3", "node", "deno", "ruby", "perl", "php", "lua", "Rscript"}
SHELLS = {"bash", "sh", "zsh", "dash"}
AROUND = {"cd", "echo", "true", "head", "tail", "sort", "uniq"}
STARTERS = {"sudo", "doas", "env", "xargs", "nohup", "timeout", "watch", "setsid", "source", "."}
# Commands of git that are told with their words, since the first alone does not say what they do.
TOLD_WHOLE = ("branch", "tag", "reset", "revert", "rebase", "cherry-pick", "worktree", "reflog", "update-ref", "gc")
MAX_WORDS = 5
SETS_VARIABLES = {"export", "declare", "typeset", "local", "readonly"}
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
TEXT_FLAGS = {"-c": "-c", "-e": "-e", "--eval": "-e", "-p": "-p"}


def headline(words, effects):
    """Return a short phrase for one sub-command, named after its weightiest effect."""
    if lasting := lasting_effect(effects):
        return lasting.title or imperative(lasting.says)
    words = _without_runner(words)
    name = words[0].text.rsplit("/", 1)[-1][:40] if words else ""
    told = next((e.title for e in effects if e.title and e.kind in ("unknown", "start")), "")
    secret = next((e for e in effects if e.kind in ("read", "unclear") and e.place and e.tier != "low"), None)
    touched = [e for e in effects if e.kind in ("delete", "write")]
    if touched:
        files = _files(name, words, effects, touched)
        if secret and secret.target and secret.tier != "medium" and secret.target[:60] not in files:
            files = f"Read {secret.target[:60]}, {_lower(files)}"
        return f"{told}, {_lower(files)}" if told and told != files else files
    if secret:
        return f"Read {secret.target[:60]}"
    if not name:
        return "Read a file" if effects else "Set a variable"
    if name in SETS_VARIABLES and (variables := _variables(words)):
        return f"Set {variables}"
    if name in SHELLS and len(words) == 3 and words[1].text == "-n":
        return f"Check the syntax of {words[2].text[:60]}"
    return told or (name == "git" and git_headline(words[1:])) or f"Run {_whole(name, words, effects)}"


def _variables(words):
    """Return the names that `export A=1 B=2` sets, without their values."""
    names = [word.text.partition("=")[0] for word in words[1:] if VARIABLE.match(word.text)]
    return ", ".join(names[:MAX_PARTS]) + (f" and {len(names) - MAX_PARTS} more" if names[MAX_PARTS:] else "")


def _whole(name, words, effects):
    """Return the program, with its words where it is not certain what it does and nothing else says more."""
    program = _program(name, words)
    is_unsure = any(
        effect.kind in ("unknown", "unclear", "start", "hidden") and effect.tier != "low" for effect in effects
    )
    rest = shown_words([word.text for word in words[1 : MAX_WORDS + 1]]) if is_unsure and program == name else ""
    return f"{program} {rest}{' …' if rest and len(words) > MAX_WORDS + 1 else ''}".strip()


def lasting_effect(effects):
    """Return the weightiest effect that a snapshot does not undo; None if there is none."""
    ordered = [effect for kind in LASTING for effect in effects if effect.kind == kind]
    graver = [effect for effect in ordered if effect.tier in ("critical", "forbidden")]
    return next(iter([*graver, *ordered]), None)


def _without_runner(words):
    """Strip a package runner: `npx prettier` is prettier."""
    if words and words[0].text in ("npx", "bunx") and len(words) > 1:
        rest = [word for word in words[1:] if word.text not in ("--no-install", "--no", "--")]
        return rest if rest and not rest[0].text.startswith("-") else words
    return words


def _program(name, words):
    """Return the program, with its subcommand if its grammar is known."""
    texts = [word.text for word in words[1:]]
    shown = words[0].text[:60] if words[0].text.startswith("./") else name
    if name in RUNTIMES or name in SHELLS:
        return f"{shown} {_script(texts)}".strip()
    if name in STARTERS and texts and not texts[0].startswith("-") and "\ufffc" not in texts[0]:
        return f"{shown} {texts[0][:60]}"
    if name == "git" and (operands := operands_of(name, texts)) and operands[0] in TOLD_WHOLE:
        return f"git {shown_words(texts[texts.index(operands[0]) :][:MAX_WORDS])}"
    if name not in GLOBAL_VALUES:
        return shown
    operands = operands_of(name, texts) or []
    verb = operands[0] if operands and "\ufffc" not in operands[0] else ""
    if verb in ("run", "exec", "compose") and len(operands) > 1 and "\ufffc" not in operands[1]:
        verb = f"{verb} {operands[1]}"
    return f"{shown} {verb[:40]}".strip()


def _script(texts):
    """Return what a runtime is given: a file, `-m` and a module, or the option for inline text."""
    for number, text in enumerate(texts):
        if text == "-m":
            return f"-m {texts[number + 1][:40]}" if len(texts) > number + 1 else ""
        if text in TEXT_FLAGS or (re.fullmatch(r"-[a-z]*c", text) and number == 0):
            return TEXT_FLAGS.get(text, "-c")
        if not text.startswith("-"):
            return text[:60] if "\ufffc" not in text else ""
    return ""


def _files(name, words, effects, touched):
    deleted = [e for e in touched if e.kind == "delete"]
    chosen = deleted or touched
    names = list(dict.fromkeys(e.target for e in chosen if e.target))
    if not names or chosen[0].title:
        return chosen[0].title or imperative(chosen[0].says)
    verb = ""
    if name == "git":
        verb = (operands_of("git", [word.text for word in words[1:]]) or [""])[0]
    redirects = not any(name_ in word.text for name_ in names for word in words)
    if name in ("cp", "mv", "install"):
        names = _to_goal(names, words)
    if (name == "mv" or verb == "mv") and len(names) > 1:
        return f"Move {', '.join(names[:-1])[:60]} to {names[-1][:60]}"
    if name == "ln" and len(names) == 2:
        return f"Link {names[1][:60]} to {names[0][:60]}"
    if name == "cp" and (read := [e.target for e in effects if e.kind == "read" and e.target]):
        return f"Copy {', '.join(dict.fromkeys(read))[:60]} to {names[-1][:60]}"
    act = ACTS.get(f"git {verb}" if verb else name, "Write") if not redirects else "Write"
    act = "Delete" if deleted else act
    return f"{act} {names[0][:60]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _to_goal(names, words):
    """Return the names without those that only count if the goal is a folder, which nobody knows beforehand."""
    goal = next((word.text for word in reversed(words) if not word.text.startswith("-")), "").rstrip("/")
    return [name for name in names if not name.startswith(f"{goal}/")] if goal in names else names


def imperative(says):
    """Turn `pushes to main` into `Push to main`."""
    turned = _bare(says)
    return turned[:1].upper() + turned[1:]


def _bare(says):
    first, _, rest = says.partition(" ")
    for ending, short in (("shes", "sh"), ("ches", "ch"), ("sses", "ss"), ("ies", "y"), ("does", "do"), ("s", "")):
        if first.endswith(ending):
            first = first[: -len(ending)] + short
            break
    return f"{first} {rest}".strip()


def title_of(entries):
    """Return the headline of a whole command: its distinct parts, the strictest and least reversible first."""
    ordered = sorted(entries, key=_weight)
    worth = _but_moves([entry for entry in ordered if entry.tier != "low"] or ordered)
    sources = {effect.source for entry in worth for effect in entry.effects if effect.source}
    parts = list(dict.fromkeys(entry.headline for entry in worth if entry.headline and not _only_feeds(entry, sources)))
    if not parts:
        return "Run a command"
    shown = parts[:MAX_PARTS]
    more = len(parts) - len(shown)
    text = ", ".join([shown[0], *(_lower(part) for part in shown[1:])])
    return text + (f" and {more} more" if more else "")


def _weight(entry):
    """Return the sort key of a part: its tier, then whether it loses data, then whether a snapshot can undo it."""
    loses = any(effect.loses for effect in entry.effects)
    return (-TIERS.index(entry.tier), not loses, lasting_effect(entry.effects) is None)


def _only_feeds(entry, sources):
    """Return whether a part only contacts a host from which another part runs a script; that part's title says so."""
    lasting = lasting_effect(entry.effects)
    return lasting is not None and lasting.kind == "network" and lasting.target in sources


def _but_moves(entries):
    """Leave out `cd`, `echo` and `head` around the actual command, unless they write or there is nothing else."""
    return [entry for entry in entries if not set(entry.words[:1]) & AROUND or _writes(entry)] or entries


def _writes(entry):
    return any(effect.kind in ("write", "delete") and effect.tier != "low" for effect in entry.effects)


def _lower(part):
    """Lower the first letter: `, push to main`, but `, stripe: create_refund` stays."""
    return part[:1].lower() + part[1:]
