"""The forms in which agents put questions to a person, read as one.

| tool | whose | an answer |
| --- | --- | --- |
| `AskUserQuestion` | Claude Code's | one text, choices joined by ", " |
| `request_user_input` | Codex's | `{"answers": [texts]}` |
| `elicitation/create` | of an MCP server | a value of the type that its schema names |
"""

from collections.abc import Callable
from typing import NamedTuple

from dashboard.problems import Problem
from dashboard.text import strict_json

BETWEEN = ", "  # between several choices of one answer, as Claude Code joins them
MAX_QUESTIONS, MAX_OPTIONS = 20, 50
MAX_ANSWER = 4000  # characters
WORDS, WHOLE_NUMBER, NUMBER, CHOICES = "text", "integer", "number", ""  # what may be typed as an answer


# The names that a schema's type has for its least and greatest, and what they count.
BOUNDS = {"array": ("minItems", "maxItems"), "string": ("minLength", "maxLength")}
BOUNDS |= dict.fromkeys((WHOLE_NUMBER, NUMBER), ("minimum", "maximum"))
UNITS = {"array": "choices", "string": "characters"}


class Unreadable(ValueError):
    """The arguments are none that a card can show."""


class Unfit(ValueError):
    """An answer that the question does not take."""


class Option(NamedTuple):
    """One choice of a question. `preview` is what the agent shows beside it, `value` what it gets."""

    label: str
    description: str
    preview: str
    value: object


class Question(NamedTuple):
    """One question; its answer is filed under `key`. Several options may be chosen if `many`.

    `typed` says what may be typed instead of a choice: a text, a number, or nothing. `bounds` are the least and the
    greatest number, or length of a text; None where there is none.
    """

    key: str
    text: str
    header: str
    options: tuple[Option, ...]
    many: bool = False
    typed: str = WORDS
    required: bool = True
    bounds: tuple = (None, None)
    hint: str = ""  # what the answer must be like, in words


class Form(NamedTuple):
    """How one tool asks: `read` its arguments, `answer` from what was chosen and typed; `check` a ready answer."""

    read: Callable[[dict], tuple[Question, ...]]
    argument: str  # the one that a person adds: {key of the question: answer}
    answer: Callable[[Question, list, str], object]
    check: Callable[[Question, object], None]


def questions_in(tool: str, arguments: dict) -> tuple[Question, ...]:
    """Return the questions. Raise Unreadable."""
    found = FORMS[tool].read(arguments)
    if len({question.key for question in found}) < len(found):
        raise Unreadable("two questions have the same text or id")
    return found


def answer_of(tool: str, question: Question, chosen: list[Option], typed: str):
    """Return the answer in the tool's own form, None if there is none. Raise Unfit."""
    if not chosen and not typed:
        return None
    found = FORMS[tool].answer(question, [option.value for option in chosen], typed)
    FORMS[tool].check(question, found)
    return found


def check_answers(tool: str, questions: tuple[Question, ...], answers):
    """Raise Unfit unless there is an answer of the right form to each question, and no other."""
    known = {question.key: question for question in questions}
    missing = [key for key, question in known.items() if question.required and key not in (answers or {})]
    if not isinstance(answers, dict) or missing or not set(answers) <= set(known):
        by = "text" if tool == "AskUserQuestion" else "name" if tool == "elicitation/create" else "id"
        raise Unfit(f"`{FORMS[tool].argument}` needs one entry for each question, named by its {by}.")
    for key, answer in answers.items():
        FORMS[tool].check(known[key], answer)


def text_in(entry: dict, name: str, *, required: bool = False) -> str:
    """Return a text of an agent's JSON, "" if it is not there. Raise Unreadable."""
    value = entry.get(name)
    value = "" if value is None else value
    if not isinstance(value, str) or (required and not value.strip()):
        raise Unreadable(f"{name} must be a text{', and not empty' if required else ''}")
    return value


# Questions of an agent's own tools ------------------------------------------------------------------------------------


def _ask_user_question(arguments: dict) -> tuple[Question, ...]:
    return tuple(_asked(entry, key="question", many="multiSelect") for entry in _entries(arguments))


def _request_user_input(arguments: dict) -> tuple[Question, ...]:
    entries = _entries(arguments)
    if any(entry.get("isSecret") for entry in entries):
        raise Unreadable("an answer that is secret would be kept in the record")
    return tuple(_asked(entry, key="id") for entry in entries)


def _entries(arguments: dict) -> list[dict]:
    listed = arguments.get("questions")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_QUESTIONS:
        raise Unreadable(f"questions must be a list of 1 to {MAX_QUESTIONS}")
    if not all(isinstance(entry, dict) for entry in listed):
        raise Unreadable("each question must be an object")
    return listed


def _asked(entry: dict, *, key: str, many: str = "") -> Question:
    options, several = entry.get("options") or [], entry.get(many, False)
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        raise Unreadable(f"options must be a list of at most {MAX_OPTIONS}")
    if not isinstance(several, bool):
        raise Unreadable(f"{many} must be true or false")
    text, header = text_in(entry, "question", required=True), text_in(entry, "header")
    named = text_in(entry, key, required=True)
    return Question(named, text, header, tuple(_option(option) for option in options), several)


def _option(entry) -> Option:
    if not isinstance(entry, dict):
        raise Unreadable("each option must be an object")
    label = text_in(entry, "label", required=True)
    return Option(label, text_in(entry, "description"), text_in(entry, "preview"), label)


def _joined(_question: Question, values: list, typed: str) -> str:
    return BETWEEN.join([*values, *([typed] if typed else [])])


def _listed(_question: Question, values: list, typed: str) -> dict:
    return {"answers": [*values, *([typed] if typed else [])]}


def _check_text(_question: Question, answer):
    if not isinstance(answer, str) or not answer.strip() or len(answer) > MAX_ANSWER:
        raise Unfit(f"Each answer is a text of 1 to {MAX_ANSWER:,} characters.")


def _check_listed(question: Question, answer):
    if not isinstance(answer, dict) or set(answer) != {"answers"} or not isinstance(answer["answers"], list):
        raise Unfit('Each answer is an object with one list, "answers".')
    if not 1 <= len(answer["answers"]) <= MAX_OPTIONS:
        raise Unfit(f"Each answer holds 1 to {MAX_OPTIONS} texts.")
    for text in answer["answers"]:
        _check_text(question, text)


# MCP ------------------------------------------------------------------------------------------------------------------


def _elicited(arguments: dict) -> tuple[Question, ...]:
    text_in(arguments, "message", required=True)
    if text_in(arguments, "mode") not in ("", "form"):
        raise Unreadable("only the mode form can be shown")
    schema = arguments.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or len(fields) > MAX_QUESTIONS:
        raise Unreadable(f"requestedSchema must be an object with at most {MAX_QUESTIONS} properties")
    required = schema.get("required", [])
    if not isinstance(required, list) or not set(map(str, required)) <= set(fields):
        raise Unreadable("required must name properties")
    # The order of properties is not kept with a call, that of the required ones is.
    ordered = [*dict.fromkeys(map(str, required)), *sorted(set(fields) - set(map(str, required)))]
    return tuple(_field(name, fields[name], name in required) for name in ordered)


def _field(name: str, entry, required: bool) -> Question:
    if not isinstance(entry, dict) or not name.strip():
        raise Unreadable("each property must have a name and a schema")
    title, about = text_in(entry, "title"), text_in(entry, "description")
    text = "\n".join(filter(None, (title or name, about)))
    hint = _hint(entry, required)
    common = {"key": name, "text": text, "header": name if title else "", "required": required, "hint": hint}
    bounds = _bounds(entry, *BOUNDS.get(entry.get("type"), ("", "")))
    match entry.get("type"):
        case "boolean":
            yes_or_no = (Option("Yes", "", "", True), Option("No", "", "", False))
            return Question(options=yes_or_no, typed=CHOICES, **common)
        case "array":
            items = entry.get("items") if isinstance(entry.get("items"), dict) else {}
            return Question(options=_choices(items), many=True, typed=CHOICES, bounds=bounds, **common)
        case "integer" | "number" as kind:
            return Question(options=(), typed=kind, bounds=bounds, **common)
        case "string" if any(word in entry for word in ("enum", "oneOf", "anyOf")):
            return Question(options=_choices(entry), typed=CHOICES, **common)
        case "string":
            return Question(options=(), bounds=bounds, **common)
    raise Unreadable(f"the type of {name} is none that a form can have")


def _hint(entry: dict, required: bool) -> str:
    kind, default = entry.get("type"), entry.get("default")
    named = {"integer": "a whole number", "number": "a number"}.get(kind, "")
    names = BOUNDS.get(kind)
    limits = in_words(_bounds(entry, *names), UNITS.get(kind, "")) if names else ""
    said = [f"{named} {limits}".strip(), text_in(entry, "format"), "" if default is None else f"default: {default}"]
    return ", ".join(filter(None, [*said, "" if required else "optional"]))


def _choices(entry: dict) -> tuple[Option, ...]:
    if isinstance(entry.get("enum"), list):
        values, names = entry["enum"], entry.get("enumNames")
        names = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(values, names, strict=True))
    else:
        listed = entry.get("oneOf") or entry.get("anyOf")
        listed = listed if isinstance(listed, list) else []
        pairs = [(each.get("const"), each.get("title")) if isinstance(each, dict) else (None, "") for each in listed]
    texts = [text for pair in pairs for text in pair]
    if not 1 <= len(pairs) <= MAX_OPTIONS or not all(isinstance(text, str) and text for text in texts):
        raise Unreadable(f"choices must be 1 to {MAX_OPTIONS} texts")
    # A title says nothing of what the server gets, so a value that differs stands beside it.
    return tuple(Option(title, "" if title == value else value, "", value) for value, title in pairs)


def _bounds(entry: dict, least: str, greatest: str) -> tuple:
    found = (entry.get(least), entry.get(greatest))
    if any(isinstance(bound, bool) or not isinstance(bound, int | float | None) for bound in found):
        raise Unreadable(f"{least} and {greatest} must be numbers")
    return found


def _value(question: Question, values: list, typed: str):
    if question.many:
        return values
    if values:
        return values[0]
    if question.typed not in (WHOLE_NUMBER, NUMBER):
        return typed
    is_whole = question.typed == WHOLE_NUMBER
    try:
        value = strict_json.loads(typed.strip().encode())
    except (Problem, UnicodeEncodeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
        raise Unfit(f"“{question.key}” takes {'a whole number' if is_whole else 'a number'}.")
    return value


def _check_value(question: Question, answer):
    """Raise Unfit unless the answer is of the question's type, one of its choices, and within its bounds."""
    if question.options:
        given, allowed = answer if question.many else [answer], [option.value for option in question.options]
        if not isinstance(given, list) or not all(_is_one(each, allowed) for each in given):
            raise Unfit(f"“{question.key}” takes only its choices.")
        size = len(given) if question.many else None
    else:
        kinds = {WHOLE_NUMBER: int, NUMBER: int | float}
        if isinstance(answer, bool) or not isinstance(answer, kinds.get(question.typed, str)) or answer != answer:
            raise Unfit(f"“{question.key}” takes another type.")
        if isinstance(answer, str):
            _check_text(question, answer)
        size = len(answer) if isinstance(answer, str) else answer
    least, greatest = question.bounds
    if size is not None and ((least is not None and size < least) or (greatest is not None and size > greatest)):
        raise Unfit(f"“{question.key}” is beyond its limits: {_limits(question)}.")


def _is_one(answer, allowed: list) -> bool:
    return any(answer == value and type(answer) is type(value) for value in allowed)


def _limits(question: Question) -> str:
    kind = "array" if question.many else "string" if question.typed == WORDS else ""
    return in_words(question.bounds, UNITS.get(kind, ""))


def in_words(bounds: tuple, unit: str) -> str:
    """Return "1 to 12 characters", "at most 5"; "" without bounds."""
    least, greatest = bounds
    if least is None and greatest is None:
        return ""
    span = (
        f"at least {least}"
        if greatest is None
        else f"at most {greatest}"
        if least is None
        else f"{least} to {greatest}"
    )
    return f"{span} {unit}".strip()


FORMS = {
    "AskUserQuestion": Form(_ask_user_question, "answers", _joined, _check_text),
    "request_user_input": Form(_request_user_input, "answers", _listed, _check_listed),
    "elicitation/create": Form(_elicited, "content", _value, _check_value),
}
