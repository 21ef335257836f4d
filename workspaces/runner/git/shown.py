"""Compare what a push sends with what a page or a card showed of it.

Git in the workspace said what was shown, from refs and objects that an agent can forge, and by programs that the
repository may have run. In the repository here git has named each object by its content, and the source itself says
what it has.
"""

from pathlib import Path

from dashboard.text.counts import counted
from workspaces.runner.git import probe

SECONDS = 120.0


def check(repository: Path, sha: str, tips: list[str], shown: dict) -> str:
    """Return "", or a sentence on how a push of `sha` differs from what was `shown` (one of `sends`, git/probe.py).

    `tips` are those of the source's branches; this repository has the objects of the bundle alone.
    """
    git = probe.Git(str(repository), SECONDS, own=True)
    try:
        there = ["--not", *_present(git, tips)]
        sent = git("rev-list", sha, *there).split()
        if not _are_listed(sent, shown):
            return f"It would send {counted(len(sent), 'commit')}, and {counted(shown['count'], 'commit')} were shown."
        if not _is_there(git, shown["base"], there):
            return f"The repository does not have {shown['base'][:12]}, with which the files were compared."
        listed = [row["sha"] for row in shown["commits"]]
        if listed and probe.commits(git, "--no-walk=unsorted", listed) != shown["commits"]:
            return "Its commits are not the ones that were shown."
        if not _are_same(probe.files(git, shown["base"], sha), shown["files"]):
            return "Its files are not the ones that were shown."
    except probe.NoAnswer as error:
        return f"It could not be compared with what was shown: {error}"
    return ""


def _present(git: probe.Git, tips: list[str]) -> list[str]:
    told = git("cat-file", "--batch-check=%(objectname)", feed="".join(f"{tip}\n" for tip in tips).encode())
    return [line for line in told.splitlines() if not line.endswith(" missing")]


def _are_listed(sent: list[str], shown: dict) -> bool:
    """Return whether each commit was shown; of those beyond the list, which is cut, whether they were counted."""
    listed = {row["sha"] for row in shown["commits"]}
    return len(sent) <= shown["count"] and (shown["count"] > len(listed) or set(sent) <= listed)


def _is_there(git: probe.Git, base: str, there: list[str]) -> bool:
    return base == probe.empty_tree(git) or git("rev-list", "--count", base, *there).strip() == "0"


def _are_same(files: dict, shown: dict) -> bool:
    """Return whether the files are those that were shown; their lines too, unless shown as binary.

    The attributes of the workspace decide what is binary there; a bare repository has none.
    """
    pairs = zip(files["first"], shown["first"], strict=False)
    return files["count"] == shown["count"] and all(
        row[0] == told[0] and (told[1] is None or row == told) for row, told in pairs
    )
