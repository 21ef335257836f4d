"""Forms for editing a call on its card."""

from django import forms

from dashboard.problems import Problem
from dashboard.strict_json import loads

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}


class ExactField(forms.CharField):
    """Text as it was typed: not stripped, and with LF line ends."""

    def __init__(self, *, rows: int = 4, **kwargs):
        super().__init__(strip=False, widget=forms.Textarea(attrs={**CODE, "rows": rows}), **kwargs)

    def to_python(self, value):
        # A browser sends each line end of a textarea as CR LF, whatever it was.
        return super().to_python(value).replace("\r\n", "\n")


class CommandForm(forms.Form):
    """Edits the command of a Bash call; its other arguments stay."""

    command = ExactField(label="Command")
    comment = forms.CharField(
        label="Note to the agent", required=False, max_length=4000, widget=forms.Textarea(attrs={"rows": 2})
    )

    def __init__(self, data=None, *, arguments: dict):
        super().__init__(data, initial={"command": arguments["command"]})
        self.before = arguments

    def arguments(self) -> dict:
        return self.before | {"command": self.cleaned_data["command"]}


class ArgumentsForm(forms.Form):
    """Edits the arguments of any other call, as JSON."""

    arguments_json = ExactField(label="Arguments, as JSON", rows=10)
    comment = CommandForm.base_fields["comment"]

    def __init__(self, data=None, *, arguments: dict, shown: str):
        super().__init__(data, initial={"arguments_json": shown})

    def clean_arguments_json(self):
        try:
            parsed = loads(self.cleaned_data["arguments_json"].encode("utf-8", "surrogatepass"))
        except Problem as problem:
            raise forms.ValidationError(problem.detail.replace("The body is", "This is")) from None
        if not isinstance(parsed, dict):
            raise forms.ValidationError("The arguments are an object: { … }.")
        return parsed

    def arguments(self) -> dict:
        return self.cleaned_data["arguments_json"]


def edit_form(card, data=None):
    """Return the form for the card's call. A command with a carriage return is edited as JSON, which preserves it."""
    if card.command is not None and "\r" not in card.command:
        return CommandForm(data, arguments=card.arguments)
    return ArgumentsForm(data, arguments=card.arguments, shown=card.arguments_json)
