"""The questions and plans that an agent puts to its person: questions of Claude Code, Codex and MCP servers, and plans.

They change nothing by themselves, and no policy can answer them: a person makes the choices, or approves the plan or
sends it back. Agents over the API name the same tools with the same arguments.
"""

from django.utils.translation import gettext_lazy, gettext_noop

from approvals.questions.question_forms import FORMS, Unfit, Unreadable, check_answers, questions_in, text_in
from dashboard.problems import invalid

PLAN, ELICITATION = "ExitPlanMode", "elicitation/create"
QUESTIONS = tuple(FORMS)
TOOLS = (*QUESTIONS, PLAN)
LABELS = dict.fromkeys(QUESTIONS, gettext_lazy("Question")) | {PLAN: gettext_lazy("Plan")}
REASONS = dict.fromkeys(QUESTIONS, gettext_noop("The agent is asking you. No rule can answer this.")) | {
    ELICITATION: gettext_noop("A server that the agent uses is asking you. No rule can answer this."),
    PLAN: gettext_noop("The agent shows its plan before it begins. Each call that needs approval still asks."),
}
# {tool: {verdict: what its person did}}, as in "alice answered this".
WORDS = {tool: {"edit": "answered", "deny": "declined to answer"} for tool in QUESTIONS} | {
    PLAN: {"approve": "approved", "deny": "sent back"},
}
OTHER_WORDS = {"approve": "approved", "deny": "denied", "edit": "edited and approved"}


def can_show(tool: str, arguments) -> bool:
    """Return whether a card can show this question or plan; a newer agent may send another shape."""
    try:
        _read(tool, arguments)
    except Unreadable:
        return False
    return True


def check_new(tool: str, arguments: dict):
    """Raise Problem 422 for a question or plan that a card cannot show, or that brings its own answer."""
    if tool not in TOOLS:
        return
    try:
        _read(tool, arguments)
    except Unreadable as error:
        raise invalid(f"{tool}: {error}.") from None
    if answers_in(tool, arguments) is not None:
        raise invalid(f"Leave `{FORMS[tool].argument}` out: a person gives them.")


def check_verdict(tool: str, verdict: str, asked: dict, given: dict | None):
    """Raise Problem 422 for a verdict that a question or plan cannot have; `given` are the arguments of an edit."""
    if tool in FORMS and verdict == "approve":
        added = FORMS[tool].argument
        raise invalid(f"A question is answered or declined, not approved: send the verdict edit with its `{added}`.")
    if tool == PLAN and verdict == "edit":
        raise invalid("A plan is approved or sent back with a comment, not edited.")
    if tool in FORMS and verdict == "edit":
        _check_answers(tool, asked, given)


def _check_answers(tool: str, asked: dict, given: dict):
    added = FORMS[tool].argument
    if {**given, added: None} != {**asked, added: None}:
        raise invalid(f"Only `{added}` can be added to a question.")
    try:
        check_answers(tool, questions_in(tool, asked), given.get(added))
    except Unfit as error:
        raise invalid(str(error)) from None


def title_of(tool: str, arguments: dict) -> str:
    """Return the headline. It holds none of the agent's words, as headlines go to the log."""
    if tool == PLAN:
        return "Review a plan"
    try:
        count = len(questions_in(tool, arguments))
    except Unreadable:  # judged, but never submitted
        count = 1
    return "Answer a question" if count <= 1 else f"Answer {count} questions"


def line_of(tool: str, arguments: dict) -> str:
    """Return the text that stands for it in a list: the first question, or the plan's first line."""
    if tool == PLAN:
        return next((line.strip() for line in arguments["plan"].splitlines() if line.strip()), "")
    return intro_of(tool, arguments) or questions_in(tool, arguments)[0].text


def intro_of(tool: str, arguments: dict) -> str:
    """Return what is said before the questions: the message of an MCP server; else ""."""
    return arguments["message"] if tool == ELICITATION else ""


def word_of(tool: str, verdict: str) -> str:
    """Return what a person did who gave this verdict: approved, denied, answered, sent back …."""
    return WORDS.get(tool, OTHER_WORDS).get(verdict, verdict)


def answers_in(tool: str, arguments: dict) -> dict | None:
    """Return {key of the question: answer} of a question that a person answered; else None.

    Only a server's question may ask for nothing but a yes, so that an answer is empty.
    """
    answers = arguments.get(FORMS[tool].argument) if tool in FORMS else None
    return answers if answers or (tool == ELICITATION and answers is not None) else None


def _read(tool: str, arguments):
    if not isinstance(arguments, dict):
        raise Unreadable("the arguments must be an object")
    if tool in FORMS:
        questions_in(tool, arguments)
    else:
        text_in(arguments, "plan", required=True)
