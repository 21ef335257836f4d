"""The chips of a changed file: what changed besides its lines, in words."""

from django.utils.translation import gettext, gettext_lazy

from workspaces.store.facts import Fact

TYPES = {
    "file": gettext_lazy("file"),
    "folder": gettext_lazy("folder"),
    "symlink": gettext_lazy("symbolic link"),
    "fifo": gettext_lazy("named pipe"),
    "socket": gettext_lazy("socket"),
    "char device": gettext_lazy("character device"),
    "block device": gettext_lazy("block device"),
}
BECAME = {
    "file": gettext_lazy("became a file"),
    "folder": gettext_lazy("became a folder"),
    "symlink": gettext_lazy("became a symbolic link"),
}
ATTRIBUTES = {
    "security.capability": gettext_lazy("file capability"),
    "system.posix_acl_access": gettext_lazy("access list"),
    "system.posix_acl_default": gettext_lazy("access list of new files"),
}
HOW = {
    "added": gettext_lazy("%(name)s added"),
    "removed": gettext_lazy("%(name)s removed"),
    "changed": gettext_lazy("%(name)s changed"),
}
CONTENT = {
    "not stored": gettext_lazy("content not stored"),
    "left out by the environment": gettext_lazy("left out by the environment"),
}
BITS = ((0o4000, gettext_lazy("setuid")), (0o2000, gettext_lazy("setgid")), (0o1000, gettext_lazy("sticky")))


def words_of(facts: list[Fact]) -> list[str]:
    """Return the words of the chips."""
    return [str(words) for fact in facts for words in _WORDS[fact.what](fact)]


def _type(fact: Fact) -> list[str]:
    if fact.old and fact.new:
        return [str(BECAME.get(fact.new) or gettext("became %(type)s") % {"type": fact.new})]
    return [str(TYPES.get(name, name)) for name in (fact.old, fact.new) if name]


def _mode(fact: Fact) -> list[str]:
    new, old = int(fact.new, 8), int(fact.old or "0", 8)
    bits = [str(words) for bit, words in BITS if new & bit and not old & bit]
    if fact.old:
        return [gettext("mode %(new)s, was %(old)s") % {"old": fact.old, "new": fact.new}, *bits]
    if not bits and new in (0o755, 0o775):
        return [gettext("executable")]
    return [gettext("mode %(mode)s") % {"mode": fact.new}, *bits, *([gettext("executable")] if new & 0o111 else [])]


def _attribute(fact: Fact) -> list[str]:
    name = str(ATTRIBUTES.get(fact.name) or gettext("attribute %(name)s") % {"name": fact.name})
    return [str(HOW[fact.new]) % {"name": name}]


def _owner(fact: Fact) -> list[str]:
    return [gettext("owner %(new)s, was %(old)s") % {"old": fact.old, "new": fact.new}]


def _content(fact: Fact) -> list[str]:
    return [str(CONTENT[fact.new])]


_WORDS = {"type": _type, "mode": _mode, "attribute": _attribute, "owner": _owner, "content": _content}
