"""A form field for text that a person edits byte for byte."""

from django import forms

CODE = {"class": "code-field", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}


class ExactField(forms.CharField):
    """Text as it was typed: not stripped, and with LF line ends."""

    def __init__(self, *, rows: int = 4, language: str = "", **kwargs):
        attrs = {**CODE, "rows": rows} | ({"data-language": language} if language else {})
        super().__init__(strip=False, widget=forms.Textarea(attrs=attrs), **kwargs)

    def to_python(self, value):
        # A browser sends each line end of a textarea as CR LF, whatever it was.
        return super().to_python(value).replace("\r\n", "\n")


def name_originals(form: forms.Form):
    """Note on each field of a form that was sent what it held at first, so that an editor can mark the changes."""
    for bound in form:
        if isinstance(bound.field, ExactField) and form.is_bound:
            bound.field.widget.attrs["data-original"] = bound.initial or ""
