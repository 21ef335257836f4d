"""The questions and plans of agents on their cards: choices, and a plan in blocks that can be commented on."""

from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext_lazy

from approvals.pages.plan_markdown import Block, blocks_of
from approvals.questions import own_questions
from approvals.questions.own_questions import ELICITATION, PLAN, QUESTIONS
from approvals.questions.question_forms import (
    FORMS,
    NUMBER,
    WHOLE_NUMBER,
    Option,
    Question,
    answer_of,
    questions_in,
)
from dashboard import json_text

TEMPLATES = dict.fromkeys(QUESTIONS, "approvals/_question.html") | {PLAN: "approvals/_plan.html"}
# Arguments that the templates show.
SHOWN_BESIDE = dict.fromkeys(QUESTIONS, ("questions", "answers")) | {
    ELICITATION: ("server", "message", "mode", "requestedSchema", "content"),
    PLAN: ("plan",),
}
DONE = {
    "answered": gettext_lazy("answered this"),
    "declined to answer": gettext_lazy("declined to answer"),
    "approved": gettext_lazy("approved this"),
    "sent back": gettext_lazy("sent this back"),
    "denied": gettext_lazy("denied this"),
    "edited and approved": gettext_lazy("edited and approved this"),
}
STATES = {tool: {"approved": "answered", "denied": "declined"} for tool in QUESTIONS} | {PLAN: {"denied": "sent_back"}}
OWN_WORDS = "own"  # the radio button for an answer in words of one's own
MAX_QUOTE = 60  # characters of a line that a comment repeats


@dataclass(frozen=True)
class ShownQuestion:
    """A question with its number; its answer if a person gave one, else what was chosen and typed in the form."""

    number: int
    question: Question
    answer: str  # in words
    chosen: tuple[str, ...]
    typed: str

    @property
    def name(self) -> str:
        """The name of its fields in the form."""
        return f"q{self.number}"

    @property
    def options(self) -> list[tuple[str, Option, bool]]:
        """The choices: [(value, option, whether it is chosen)]."""
        numbered = enumerate(self.question.options, 1)
        return [(str(number), option, str(number) in self.chosen) for number, option in numbered]

    @property
    def is_number(self) -> bool:
        return self.question.typed in (WHOLE_NUMBER, NUMBER)

    @property
    def is_in_own_words(self) -> bool:
        return OWN_WORDS in self.chosen


@dataclass(frozen=True)
class ShownBlock:
    """A block of a plan, and the comment on it that was typed in the form."""

    block: Block
    comment: str


class OwnPart:
    """What a card shows of an agent's question or plan.

    The card has `action`, `arguments`, `final`, `is_open` and `push`.
    """

    given: dict = {}  # what a person sent in the form, if it could not be used

    @property
    def own_label(self) -> str:
        """Question or Plan; "" for a call."""
        return own_questions.LABELS.get(self.action.tool, "")

    @property
    def own_line(self) -> str:
        return own_questions.line_of(self.action.tool, self.arguments) if self.own_label else ""

    @property
    def own_state(self) -> str:
        """The state of a question, a plan or a call with something to do first, where it has its own name; else ""."""
        if self.final and self.final.do_first:
            return "sent_back"
        return STATES.get(self.action.tool, {}).get(self.action.status, "")

    @property
    def own_sentence(self) -> str:
        """What the person did who decided it: "answered this", "sent this back"."""
        word = own_questions.word_of(self.action.tool, self.final.verdict) if self.final else ""
        return str(DONE.get(word, word)) if word else ""

    @property
    def own_intro(self) -> str:
        """What is said before the questions."""
        return own_questions.intro_of(self.action.tool, self.arguments)

    @property
    def own_others(self) -> list[tuple[str, str]]:
        """Arguments that stand in no question and no plan, such as permissions that a plan asks for."""
        known = SHOWN_BESIDE.get(self.action.tool, ())
        others = [(name, value) for name, value in self.arguments.items() if name not in known]
        return [(n, v if isinstance(v, str) else json_text.dumps(v, ensure_ascii=False)) for n, v in others]

    @property
    def call_template(self) -> str:
        usual = "approvals/_push_call.html" if self.push else "approvals/_call.html"
        return TEMPLATES.get(self.action.tool, usual)

    @property
    def is_held_by_a_hook(self) -> bool:
        """Whether an agent with a terminal of its own waits, so that it can be left to that terminal."""
        return self.is_open and self.action.hold_until is not None

    @cached_property
    def shown_questions(self) -> list[ShownQuestion]:
        answers = own_questions.answers_in(self.action.tool, self.arguments) or {}
        found = questions_in(self.action.tool, self.arguments)
        return [self._shown(number, each, answers) for number, each in enumerate(found, 1)]

    def _shown(self, number: int, question: Question, answers: dict) -> ShownQuestion:
        chosen, typed = chosen_in(self.given, f"q{number}"), typed_in(self.given, f"q{number}-{OWN_WORDS}")
        return ShownQuestion(number, question, _answer_text(question, answers.get(question.key)), chosen, typed)

    @cached_property
    def shown_blocks(self) -> list[ShownBlock]:
        found = blocks_of(self.arguments["plan"])
        return [ShownBlock(block, typed_in(self.given, f"line-{block.line}")) for block in found]

    @property
    def whole_comment(self) -> str:
        """The comment on the whole plan that was typed in the form."""
        return typed_in(self.given, "comment")


def answers_from(card: OwnPart) -> tuple[str, dict]:
    """Return (argument, {key of the question: answer}) of the form; what was left empty is left out. Raise Unfit."""
    tool, found = card.action.tool, {}
    for shown in card.shown_questions:
        chosen = [option for _, option, is_chosen in shown.options if is_chosen]
        answer = answer_of(tool, shown.question, chosen, shown.typed if shown.question.typed else "")
        if answer is not None:
            found[shown.question.key] = answer
    return FORMS[tool].argument, found


def _answer_text(question: Question, answer) -> str:
    """Return an answer that a person gave in the words of its choices; "" if there is none."""
    if isinstance(answer, dict):
        answer = answer["answers"]
    labels = {repr(option.value): option.label for option in question.options}
    given = answer if isinstance(answer, list) else [] if answer is None else [answer]
    return ", ".join(labels.get(repr(each), str(each)) for each in given)


def comments_from(card: OwnPart) -> str:
    """Return the comments of the form as one text: on the whole plan, then each with the line that it is about."""
    said = [card.whole_comment] if card.whole_comment else []
    for shown in card.shown_blocks:
        if shown.comment:
            first = shown.block.first_line
            quote = first if len(first) <= MAX_QUOTE else f"{first[:MAX_QUOTE]}…"
            said.append(f"On line {shown.block.line} (“{quote}”): {shown.comment}")
    return "\n".join(said)


def chosen_in(given, name: str) -> tuple[str, ...]:
    return tuple(given.getlist(name)) if given else ()


def typed_in(given, name: str) -> str:
    return given.get(name, "").replace("\r\n", "\n").replace("\0", "").strip() if given else ""
