"""A request as a revision of an earlier one: what a person denied, the words said, and what the agent changed."""

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import groupby

from django.utils.safestring import SafeString, mark_safe

from approvals.evaluation.calls import parsed
from approvals.models import Action, Status, Tier
from approvals.pages.json_text import pretty
from approvals.questions import own_questions
from dashboard.text.visible_text import visible

SINCE = timedelta(days=1)
MAX_CANDIDATES = 20
MAX_BETWEEN = 5  # calls between two requests that are shown, the last ones
MAX_COMPARED = 500  # words and signs of a call; longer calls are not compared word by word
MAX_TEXT = 10_000  # characters of a call that is compared
_WORDS = re.compile(r"\s+|[\w.@%+-]+|.", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True)
class Revised:
    """Two requests of one session, the first of which a person denied."""

    denied: Action
    again: Action

    @cached_property
    def answer(self):
        return next((given for given in self.denied.decisions.all() if given.final), None)

    @property
    def word(self) -> str:
        """What the person did to the first: denied, or sent back."""
        if self.answer and self.answer.do_first:
            return "sent back"
        return own_questions.word_of(self.denied.tool, "deny")

    @cached_property
    def between(self) -> list[Action]:
        """What the agent asked to do between the two, oldest first, if it was told to do something first."""
        if not (self.answer and self.answer.do_first):
            return []
        session = {"team_id": self.again.team_id, "agent_id": self.again.agent_id, "session": self.again.session}
        since = {"created_at__gte": self.denied.decided_at, "created_at__lt": self.again.created_at}
        return list(Action.objects.filter(**session, **since).order_by("-created_at")[:MAX_BETWEEN])[::-1]

    @property
    def is_same(self) -> bool:
        return self.denied.digest == self.again.digest

    @cached_property
    def changed(self) -> SafeString | None:
        """What was asked again, with the words that were removed and added; None if it is too long to compare."""
        return word_diff(_text_of(self.denied), _text_of(self.again))


def revision_of(action: Action) -> Revised | None:
    """Return the last denial of a like call that the agent had before it made this request; None if there is none."""
    if action.tier in (Tier.LOW, Tier.FORBIDDEN):
        return None
    earlier = _of_session(action).filter(
        status=Status.DENIED,
        decisions__final=True,
        decided_at__lte=action.created_at,
        created_at__gte=action.created_at - SINCE,
    )
    found = (other for other in earlier.order_by("-created_at")[:MAX_CANDIDATES] if _is_like(other, action))
    denied = next(found, None)
    return Revised(denied, action) if denied else None


def asked_again(action: Action) -> Revised | None:
    """Return the first request that is a revision of this denied one; None if there is none."""
    if action.status != Status.DENIED or not action.decided_at:
        return None
    until = action.decided_at + SINCE
    later = _of_session(action).filter(created_at__gte=action.decided_at, created_at__lte=until)
    for other in later.order_by("created_at")[:MAX_CANDIDATES]:
        found = revision_of(other) if _is_like(action, other) else None
        if found and found.denied.pk == action.pk:
            return found
    return None


def word_diff(old: str, new: str) -> SafeString | None:
    """Return the new text as HTML, with <del> and <ins> where words differ; None if the texts are too long."""
    if max(len(old), len(new)) > MAX_TEXT:
        return None
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(before), len(after)) > MAX_COMPARED:
        return None
    shown = []
    for kind, words in groupby(_compared(before, after), key=lambda step: step[0]):
        text = visible("".join(word for _, word in words))
        shown.append(f"<{kind}>{text}</{kind}>" if kind else text)
    return mark_safe("".join(shown))


def _compared(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    """Return the words as [(kind, word)], with kind "", "del" or "ins", by their longest common subsequence.

    The time is the product of the lengths, whatever the words are; difflib's grows with their third power.
    """
    common = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in range(len(before) - 1, -1, -1):
        here, below, word = common[i], common[i + 1], before[i]
        for j in range(len(after) - 1, -1, -1):
            here[j] = below[j + 1] + 1 if word == after[j] else max(below[j], here[j + 1])
    steps, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            steps.append(("", after[j]))
            i, j = i + 1, j + 1
        elif j == len(after) or (i < len(before) and common[i + 1][j] >= common[i][j + 1]):
            steps.append(("del", before[i]))
            i += 1
        else:
            steps.append(("ins", after[j]))
            j += 1
    return steps


def _of_session(action: Action):
    """Find the requests of the same agent, session, workspace and tool; none for a request without a session."""
    if not action.session:
        return Action.objects.none()
    same = {name: getattr(action, name) for name in ("team_id", "agent_id", "session", "workspace_id", "tool")}
    return Action.objects.filter(**same).exclude(pk=action.pk).prefetch_related("revisions", "decisions__user")


def _first(action: Action):
    return min(action.revisions.all(), key=lambda revision: revision.number)


def _is_like(one: Action, other: Action) -> bool:
    """Whether both are calls of the same tool and, for a shell command, of a program that made both ask."""
    return one.tool != "Bash" or not _programs(one).isdisjoint(_programs(other))


def _programs(action: Action) -> set[str]:
    """Return the names of the programs in the parts of the highest tier, without assignments before them."""
    commands = _first(action).commands
    asked = [item for item in commands if item.get("tier") == action.tier] or commands
    names = set()
    for item in asked:
        words = [word for word in str(item.get("text", "")).split() if not _ASSIGNMENT.match(word)]
        names.update(words[:1])
    return names


def _text_of(action: Action) -> str:
    """Return what the agent asked for: the shell command, or the arguments as JSON."""
    arguments = parsed(_first(action).canonical)["arguments"]
    if action.tool == own_questions.PLAN and isinstance(plan := arguments.get("plan"), str):
        return plan
    command = arguments.get("command")
    return command if action.tool == "Bash" and isinstance(command, str) else pretty(arguments)
