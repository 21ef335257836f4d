"""Groups of pending actions that are alike, for one answer to all of them.

Two actions are alike if one agent asks for them with the same tool, at the same tier and with the same prospect of an
undo: shell calls with the same programs and verbs, edits of files in one folder. What needs two people is in no group,
and neither are the questions and plans of agents.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

from django.utils.translation import gettext

from approvals import own_questions
from approvals.evaluation import content, current
from approvals.models import Action

MIN_ALIKE = 3
MAX_ANSWERED = 100  # actions with one answer
MAX_SHOWN = 2_000  # bytes of a call that are shown in a group; a longer one is decided on its own card
FILE_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit", "Handrail.Remove")
MAX_VERBS = 6


@dataclass(frozen=True)
class Group:
    """Actions that are alike, and what to call them: "git push", "Edit under docs/"."""

    label: str
    actions: tuple


def groups_of(actions) -> list[Group]:
    """Return the groups of at least MIN_ALIKE among the actions, the largest first. Revisions are prefetched."""
    found: dict[tuple, list[Action]] = {}
    for action in actions:
        if action.quorum == 1 and action.tool not in own_questions.TOOLS:
            found.setdefault(kind_of(action), []).append(action)
    alike = [Group(kind[-1], tuple(each)) for kind, each in found.items() if len(each) >= MIN_ALIKE]
    return sorted(alike, key=lambda group: -len(group.actions))


def kind_of(action: Action) -> tuple:
    """Return what alike actions have in common; the last part is the label of their group."""
    what = _what(action)
    return action.team_id, action.agent_id, action.tool, action.tier, action.undo, what


def _what(action: Action) -> str:
    if action.tool == "Bash":
        return ", ".join(_verbs(current(action).commands)) or gettext("shell commands")
    if action.tool in FILE_TOOLS:
        folder = _folder(content(action)["arguments"])
        return f"{action.tool.rpartition('.')[2]} in {folder}"
    return action.tool


def _verbs(commands: list[dict]) -> list[str]:
    """Return the programs of a shell call with their verbs, each once, in their order."""
    found = []
    for command in commands:
        words = command.get("words") or []
        name = PurePosixPath(words[0]).name if words else ""
        second = words[1] if len(words) > 1 else ""
        is_verb = second.replace("-", "").isalpha() and not second.startswith("-")
        found.append(f"{name} {second}" if is_verb else name)
    found = [text for text in dict.fromkeys(found) if text]
    return [*found[:MAX_VERBS], *(["…"] if len(found) > MAX_VERBS else [])]


def _folder(arguments: dict) -> str:
    path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
    folder = str(PurePosixPath(path).parent) if isinstance(path, str) else ""
    return gettext("the top folder") if folder in ("", ".") else f"{folder}/"
