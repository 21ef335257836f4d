"""Forms for editing a call on its card."""

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy

from approvals.evaluation import tool_schemas
from approvals.pages.argument_fields import MAX_FIELDS, WHOLE, Argument, arguments_in, field_for, value_from
from approvals.pages.exact_field import ExactField, name_originals
from approvals.policy.deeds import CURRENCIES, amount_of
from dashboard.problems import Problem
from dashboard.text.strict_json import loads


class CommandForm(forms.Form):
    """Edits the command of a Bash call; its other arguments stay."""

    command = ExactField(label=gettext_lazy("Command"), language="shell")
    comment = forms.CharField(
        label=gettext_lazy("Note to the agent"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(self, data=None, *, arguments: dict):
        super().__init__(data, initial={"command": arguments["command"]})
        self.before = arguments

    def arguments(self) -> dict:
        return self.before | {"command": self.cleaned_data["command"]}


class FieldsForm(forms.Form):
    """Edits each argument in a field of its own, whose value keeps its type."""

    def __init__(self, data=None, *, tool: str, arguments: dict, fields: list[Argument]):
        super().__init__(data)
        self.before, self.named = arguments, {f"arg-{number}": each for number, each in enumerate(fields)}
        self.fields |= {name: field_for(each) for name, each in self.named.items()}
        for name, argument in self.named.items():
            if words := _meaning(tool, argument, arguments):
                self.fields[name].help_text = format_html("{} {}", words, self.fields[name].help_text)
        self.fields["comment"] = CommandForm.base_fields["comment"]
        self.wanted = {}

    def clean(self):
        self.wanted = dict(self.before)
        for name, argument in self.named.items():
            if name in self.cleaned_data:
                self._clean_one(name, argument)

    def _clean_one(self, name: str, argument: Argument):
        try:
            is_given, value = value_from(argument, self.cleaned_data[name])
        except forms.ValidationError as error:
            self.add_error(name, error)
        else:
            if is_given:
                self.wanted[argument.name] = value

    def arguments(self) -> dict:
        return self.wanted


def _meaning(tool: str, argument: Argument, arguments: dict) -> str:
    """Return what a sum in the smallest unit of its currency means, as it is read: "12990 means 129.90 EUR."."""
    if argument.kind != WHOLE or not argument.is_given:
        return ""
    currency = {name: arguments[name] for name in CURRENCIES if name in arguments}
    amount = amount_of(tool, {argument.name: argument.value, **currency})
    number = amount.partition(" ")[0].replace(",", "")
    if not amount or number == str(argument.value):
        return ""
    return gettext("%(number)s means %(amount)s.") % {"number": argument.value, "amount": amount}


class ArgumentsForm(forms.Form):
    """Edits the arguments of any call, as JSON."""

    arguments_json = ExactField(label=gettext_lazy("Arguments, as JSON"), rows=10, language="json")
    comment = CommandForm.base_fields["comment"]

    def __init__(self, data=None, *, arguments: dict, shown: str):
        super().__init__(data, initial={"arguments_json": shown})

    def clean_arguments_json(self):
        try:
            parsed = loads(self.cleaned_data["arguments_json"].encode("utf-8", "surrogatepass"))
        except Problem as problem:
            raise forms.ValidationError(problem.detail.replace("The body is", "This is")) from None
        if not isinstance(parsed, dict):
            raise forms.ValidationError(gettext("The arguments are an object: { … }."))
        return parsed

    def arguments(self) -> dict:
        return self.cleaned_data["arguments_json"]


def edit_form(card, data=None, *, as_json: bool = False):
    """Return the form for the card's call; as JSON if that is wanted, or if it has too many arguments for fields."""
    form = _form(card, data, as_json)
    name_originals(form)
    return form


def _form(card, data, as_json: bool):
    as_json = as_json or (data is not None and "arguments_json" in data)
    if card.command is not None and "\r" not in card.command and not as_json:
        return CommandForm(data, arguments=card.arguments)
    fields = arguments_in(card.arguments, tool_schemas.of_action(card.action))
    if as_json or not fields or len(fields) > MAX_FIELDS:
        return ArgumentsForm(data, arguments=card.arguments, shown=card.arguments_json)
    return FieldsForm(data, tool=card.action.tool, arguments=card.arguments, fields=fields)
