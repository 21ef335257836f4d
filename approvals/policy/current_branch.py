"""Whether a command may change which branch the workspace is on, or goes to another repository.

What pushes without naming a branch, or a condition `branch`, then meets an unknown one.
"""

from .programs.git import GLOBAL
from .shell_words import names

# Subcommands of git after which the same branch is checked out as before.
KEEPING = names("""
    add am apply blame cherry-pick clean commit describe diff fetch gc grep log ls-files ls-remote merge mv notes prune
    pull push repack reset restore rev-parse revert rm shortlog show status tag
""")
OWN_PROGRAMS = ("start", "run", "unknown", "unclear", "hidden", "install", "harmful")  # may do anything
GH_SWITCHES = names("checkout co develop merge sync")  # subcommands of gh, which check out what they get or leave


def may_change(simple, found):
    """Return whether the workspace may be on another branch once this simple command ran. `found`: its effects."""
    effects = [*found.effects, *found.within]
    if simple.moved or any(effect.kind != "read" and ".git" in effect.target.split("/") for effect in effects):
        return True
    texts = [word.text for word in found.words]
    name = texts[0].rpartition("/")[2] if texts else ""
    if name == "gh" and GH_SWITCHES & set(texts):
        return True
    if name == "git":
        if any(effect.kind == "unclear" for effect in effects):  # by a variable, such as GIT_DIR
            return True
        rest = texts[1:]
        while rest and rest[0] in GLOBAL:
            rest.pop(0)
        keeps = not rest or rest[:2] == ["checkout", "--"] or (rest[0] == "stash" and rest[1:2] != ["branch"])
        return not keeps and rest[0] not in KEEPING and any(effect.tier != "low" for effect in effects)
    anywhere = any(effect.kind == "write" and not effect.target for effect in effects)  # as tar unpacks what it holds
    return anywhere or any(effect.kind in OWN_PROGRAMS for effect in effects)
