"""A form field for each argument of a call, so that an edit keeps its type: text, number, yes or no, choice, JSON."""

from dataclasses import dataclass, field

from django import forms
from django.utils.translation import gettext, gettext_lazy

from approvals.evaluation.tool_schemas import ORDER
from approvals.pages.exact_field import CODE, ExactField
from dashboard import json_text
from dashboard.problems import Problem
from dashboard.text.strict_json import loads
from dashboard.text.visible_text import visible

MAX_FIELDS = 40
MAX_ROWS = 16
WRAPS_AT = 40  # characters of a line in a field on a phone
TEXT, WHOLE, NUMBER, YES_NO, CHOICE, JSON = "text", "integer", "number", "boolean", "choice", "json"
NOT_GIVEN = gettext_lazy("(not given)")


@dataclass(frozen=True)
class Argument:
    """One argument: its kind of field, its value if the call gives it, and what its schema says."""

    name: str
    kind: str
    is_given: bool
    value: object = None
    schema: dict = field(default_factory=dict)


def arguments_in(given: dict, schema: dict) -> list[Argument]:
    """Return the arguments of a call and those that its tool's schema names besides, in the order of the schema."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    order = schema.get(ORDER)
    ordered = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    names = dict.fromkeys([*ordered, *map(str, properties), *sorted(given)])
    return [_argument(name, given, properties.get(name)) for name in names if name in given or name in properties]


def _argument(name: str, given: dict, schema) -> Argument:
    schema = schema if isinstance(schema, dict) else {}
    is_given, value = name in given, given.get(name)
    return Argument(name, _kind(is_given, value, schema), is_given, value, schema)


def _kind(is_given: bool, value, schema: dict) -> str:
    """Return the kind of field. The value decides where it is given: a field never changes the type by itself."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(each, str) and "\r" not in each for each in choices):
        return CHOICE if not is_given or value in choices else TEXT if isinstance(value, str) else JSON
    wanted = schema.get("type")
    if not is_given:
        return {"string": TEXT, "integer": WHOLE, "number": NUMBER, "boolean": YES_NO}.get(str(wanted), JSON)
    if isinstance(value, bool):
        return YES_NO
    if isinstance(value, int):
        return NUMBER if wanted == "number" else WHOLE
    if isinstance(value, float):
        return NUMBER
    # A browser would change a carriage return into a line end.
    return TEXT if isinstance(value, str) and "\r" not in value else JSON


def field_for(argument: Argument) -> forms.Field:
    """Return the form field of an argument, with its value. One that the call gives is not shown as optional."""
    found = _field(argument)
    found.is_given = argument.is_given
    return found


def _field(argument: Argument) -> forms.Field:
    about = argument.schema.get("description")
    label = visible(argument.name, one_line=True)
    common = {"label": label, "required": False, "help_text": visible(about) if isinstance(about, str) else ""}
    match argument.kind:
        case "boolean" if argument.is_given:
            return forms.BooleanField(initial=argument.value, **common)
        case "boolean":
            choices = [("", NOT_GIVEN), ("true", "true"), ("false", "false")]
            return forms.ChoiceField(choices=choices, **common)
        case "choice":
            blank = [] if argument.is_given else [("", NOT_GIVEN)]
            choices = [*blank, *((each, visible(each, one_line=True)) for each in argument.schema["enum"])]
            return forms.ChoiceField(choices=choices, initial=argument.value or "", **common)
        case "integer" | "number":
            shown = json_text.dumps(argument.value) if argument.is_given else ""
            return forms.CharField(
                initial=shown, widget=forms.TextInput(attrs={**CODE, "inputmode": "decimal"}), **common
            )
        case "json":
            shown = json_text.dumps(argument.value, ensure_ascii=False, indent=2) if argument.is_given else ""
            return ExactField(rows=_rows(shown), initial=shown, language=JSON, **common)
    text = argument.value if argument.is_given else ""
    return ExactField(rows=_rows(text), initial=text, **common)


def _rows(text: str) -> int:
    lines = text.split("\n", MAX_ROWS)
    return max(1, min(MAX_ROWS, sum(1 + len(line) // WRAPS_AT for line in lines)))


def value_from(argument: Argument, typed):
    """Return (whether it is given, value) of what a person left in the field. Raise ValidationError."""
    if argument.kind == YES_NO:
        return (True, typed) if argument.is_given else (typed != "", typed == "true")
    if not argument.is_given and typed == "":
        return False, None
    if argument.kind in (TEXT, CHOICE):
        value = typed
    elif argument.kind == JSON:
        value = _json(typed)
    else:
        value = _number(typed.strip(), whole=argument.kind == WHOLE)
    _check(argument, value)
    return True, value


def _json(text: str):
    try:
        return loads(text.encode("utf-8", "surrogatepass"))
    except Problem as problem:
        raise forms.ValidationError(problem.detail.replace("The body is", "This is")) from None


def _number(text: str, *, whole: bool):
    try:
        value = loads(text.encode())
    except (Problem, UnicodeEncodeError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise forms.ValidationError(gettext("This takes a whole number.") if whole else gettext("This takes a number."))
    return value


def _check(argument: Argument, value):
    """Raise ValidationError for a changed value beyond the schema's limits; what the agent sent itself may stay."""
    if argument.is_given and value == argument.value:
        return
    text = isinstance(value, str)
    least, greatest = (
        argument.schema.get(name) for name in (("minLength", "maxLength") if text else ("minimum", "maximum"))
    )
    if not text and (isinstance(value, bool) or not isinstance(value, int | float)):
        return
    size = len(value) if text else value
    if isinstance(least, int | float) and size < least:
        words = gettext("This takes at least %(n)s characters.") if text else gettext("This takes at least %(n)s.")
        raise forms.ValidationError(words % {"n": least})
    if isinstance(greatest, int | float) and size > greatest:
        words = gettext("This takes at most %(n)s characters.") if text else gettext("This takes at most %(n)s.")
        raise forms.ValidationError(words % {"n": greatest})
