"""What a row of a list shows of a card: its title, whether it can be undone, and what can be decided in the row."""

from typing import NamedTuple

from django.utils.translation import gettext

from approvals.pages.arguments_part import EXPLANATION_ARGUMENTS
from approvals.questions import own_questions
from dashboard.text.labels import UNDO
from dashboard.text.visible_text import hidden_characters

MAX_ROW_LINE = 100  # characters of a call in a row
MAX_TITLE = 160  # characters of a question or of a plan's first line in a row
MAX_WHOLE = 32  # characters of a plain command that a row shows whole, on a phone too
MAX_QUESTION = 80  # characters of a question that its row shows whole
MAX_ANSWER = 16  # characters of a choice on a button of a row
MAX_ANSWERS = 3  # choices that become buttons


class Sign(NamedTuple):
    """The sign at the start of a row: its words, its tone, and its icon."""

    words: str
    tone: str
    icon: str


class RowPart:
    """What a card shows in a row.

    The card has `action`, `is_open`, `may_decide`, `undo_shown`, `undo_part`, `tone`, `command` and OwnPart's.
    """

    @property
    def row_title(self) -> str:
        """The server's title of a call; an agent's question itself, or the first line of its plan."""
        if not self.own_label:
            return self.title
        line = self.own_line.lstrip("# ") or self.own_line
        return line if len(line) <= MAX_TITLE else f"{line[:MAX_TITLE]}…"

    @property
    def sign(self) -> Sign:
        """Whether the call can be undone; of a question or a plan what it is."""
        if self.own_label:
            icon = "plan" if self.action.tool == own_questions.PLAN else "question"
            return Sign(self.own_label, "accent" if self.is_open else self.tone, icon)
        words, tone, icon = UNDO[self.undo_shown]
        if self.undo_part and self.undo_shown == "no":
            words = gettext("%(part)s can't be undone") % {"part": self.undo_part}
        return Sign(words, tone if self.is_open else self.tone, icon)

    @property
    def row_line(self) -> str:
        """The beginning of the call; "" of a question or a plan, whose title is its own text."""
        line = "" if self.own_label else self.line
        return line if len(line) <= MAX_ROW_LINE else f"{line[:MAX_ROW_LINE]}…"

    @property
    def is_decided_in_list(self) -> bool:
        """Whether a list offers to approve it: reversible, by one person, and the row shows the whole call."""
        is_plain = self.command is not None and set(self.arguments) <= {"command", *EXPLANATION_ARGUMENTS}
        is_seen = is_plain and len(self.command) <= MAX_WHOLE and self.command.isascii() and self.command.isprintable()
        is_whole = is_seen and not self.call.get("files")
        return self.may_decide and is_whole and self.action.undo == "yes" and self.action.takes_one

    @property
    def quick_answers(self) -> list[tuple[str, str]]:
        """The choices of one short question, if its row can show all of it: [(value of its field, label)]; else []."""
        if self.action.tool not in own_questions.QUESTIONS or not self.may_decide or self.own_intro:
            return []
        if len(self.shown_questions) != 1:
            return []
        question, options = self.shown_questions[0].question, self.shown_questions[0].options
        is_short = len(question.text) <= MAX_QUESTION and "\n" not in question.text
        if question.many or not is_short or not 2 <= len(options) <= MAX_ANSWERS:
            return []
        shown = [(value, option.label) for value, option, _ in options if _is_shown_by_label(option)]
        return shown if len(shown) == len(options) == len({label.strip() for _, label in shown}) else []


def _is_shown_by_label(option) -> bool:
    """Return whether a button with its label shows all of a choice that matters: what the agent gets is the label."""
    is_plain = len(option.label) <= MAX_ANSWER and not hidden_characters(option.label) and "\n" not in option.label
    return is_plain and option.value == option.label and not option.preview
