"""Headlines in plain words, made from effects and never from what the agent says."""

from .verdict import TIERS

MAX_PARTS = 3
LASTING = ("push", "remote", "install", "harmful", "network", "hidden")
# Programs named by what they do to their files.
ACTS = {"mv": "Move", "cp": "Copy to", "mkdir": "Make the folder", "touch": "Create", "chmod": "Change the mode of"}
ACTS |= {"sed": "Edit", "ln": "Link", "git": "Restore", "black": "Format", "ruff": "Format", "tar": "Pack or unpack"}
WITH_VERB = {
    "git",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "cargo",
    "go",
    "make",
    "docker",
    "kubectl",
    "gh",
    "pip",
    "uv",
    "poetry",
}
WITH_VERB |= {"poetry", "npx", "python", "python3", "node", "bash", "sh"}


def headline(words, effects):
    """Return a short phrase for one sub-command, after the weightiest thing that it does."""
    for kind in LASTING:
        for effect in effects:
            if effect.kind == kind:
                return imperative(effect.says)
    name = words[0].text.rsplit("/", 1)[-1][:40] if words else ""
    touched = [e for e in effects if e.kind in ("delete", "write")]
    if touched:
        return _files(name, touched)
    secret = next((e for e in effects if e.kind == "read" and e.tier != "low"), None)
    if secret:
        return f"Read {secret.target[:60]}"
    if not name:
        return "Read a file" if effects else "Set a variable"
    verb = next((word.text for word in words[1:] if not word.text.startswith("-")), "") if name in WITH_VERB else ""
    return f"Run {name} {verb[:40]}".strip()


def _files(name, touched):
    deleted = [e for e in touched if e.kind == "delete"]
    chosen = deleted or touched
    names = list(dict.fromkeys(e.target for e in chosen if e.target))
    act = "Delete" if deleted else ACTS.get(name, "Write")
    if not names:
        return imperative(chosen[0].says)
    if name == "mv" and len(names) > 1:
        return f"Move {', '.join(names[:-1])[:60]} to {names[-1][:60]}"
    return f"{act} {names[0][:60]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def imperative(says):
    """`pushes to main` → `Push to main`."""
    parts = says.split(" and ") if says.startswith("fetches and") else [says]
    turned = " and ".join(_bare(part) for part in parts)
    return turned[:1].upper() + turned[1:]


def _bare(says):
    first, _, rest = says.partition(" ")
    for ending, short in (("shes", "sh"), ("ches", "ch"), ("sses", "ss"), ("ies", "y"), ("does", "do"), ("s", "")):
        if first.endswith(ending):
            first = first[: -len(ending)] + short
            break
    return f"{first} {rest}".strip()


def title_of(entries):
    """Return the headline of a whole command: its parts, each once, the weightier first."""
    ordered = sorted(entries, key=lambda entry: -TIERS.index(entry.tier))
    worth = [entry for entry in ordered if entry.tier != "low"] or ordered
    parts = list(dict.fromkeys(entry.headline for entry in worth if entry.headline))
    if not parts:
        return "Run a command"
    shown = parts[:MAX_PARTS]
    more = len(parts) - len(shown)
    text = ", ".join([shown[0], *(part[:1].lower() + part[1:] for part in shown[1:])])
    return text + (f" and {more} more" if more else "")
