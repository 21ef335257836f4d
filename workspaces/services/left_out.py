"""What a push of a workspace's commits leaves out, in words: uncommitted files, other branches and the like."""

from django.utils.translation import ngettext

MAX_NAMED = 3


def sentences(left: dict) -> list[str]:
    """Return a sentence for each kind of thing that git reported as left out (`left` of runner/git/probe.py push)."""
    return [_count_text(kind, left[kind]["count"]) + _named(left[kind]) for kind in KINDS if kind in left]


KINDS = ("changed", "new", "branches", "stashes", "submodules", "lfs", "ignored")  # the most important first


def _count_text(kind: str, n: int) -> str:
    words = {
        "changed": ngettext("%(n)s file with uncommitted changes", "%(n)s files with uncommitted changes", n),
        "new": ngettext("%(n)s new file that was never committed", "%(n)s new files that were never committed", n),
        "branches": ngettext(
            "%(n)s other branch with commits that are only here",
            "%(n)s other branches with commits that are only here",
            n,
        ),
        "stashes": ngettext("%(n)s stash", "%(n)s stashes", n),
        "submodules": ngettext(
            "%(n)s submodule: its own commits are not pushed", "%(n)s submodules: their own commits are not pushed", n
        ),
        "lfs": ngettext(
            "%(n)s file of git-lfs: only its pointer is pushed",
            "%(n)s files of git-lfs: only their pointers are pushed",
            n,
        ),
        "ignored": ngettext("%(n)s ignored file or folder", "%(n)s ignored files or folders", n),
    }
    return words[kind] % {"n": f"{n:,}"}


def _named(found: dict) -> str:
    names = ", ".join(found["first"][:MAX_NAMED])
    more = " …" if found["count"] > MAX_NAMED else ""
    return f" ({names}{more})"
