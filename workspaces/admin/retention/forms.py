"""The forms of a team's retention page."""

from django import forms

from dashboard.problems import invalid
from workspaces.models import Snapshot, Workspace
from workspaces.models.retention import MAX_HOURS
from workspaces.services.retention import COUNTS, Layer, Rules, Terms, layers
from workspaces.services.retention.confirming import Changes

MAX_DAYS, MAX_KEPT = 36_500, 1_000_000
TOO_LONG = "At most 36,500 days (a hundred years); leave it empty to keep for ever."


def _days() -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=0, max_value=MAX_DAYS, error_messages={"max_value": TOO_LONG})


def _hours() -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=1, max_value=MAX_HOURS)


class RuleForm(forms.Form):
    """One layer's rule. Ticking *default* removes a rule; changed values make one."""

    default = forms.BooleanField(required=False)

    def __init__(self, data, *, layer: Layer, rules: Rules, environment: str):
        self.layer, self.found = layer, rules.in_force(layer, environment)
        self.is_own = (environment, layer.name) in rules.own
        terms = self.found.terms
        kept = {count: getattr(terms, count) for count in layer.counts}
        initial = {"default": not self.is_own, "days": terms.days, "hours": terms.hours} | kept
        super().__init__(data, prefix=layer.name, initial=initial)
        self.length_name = "hours" if layer.in_hours else "days"
        self.fields[self.length_name] = _hours() if layer.in_hours else _days()
        for count in layer.counts:
            self.fields[count] = forms.IntegerField(required=False, min_value=0, max_value=MAX_KEPT)
        for name, field in self.fields.items():
            field.widget.attrs["aria-label"] = f"{layer.label}: {name}"

    def count_fields(self):
        """Return for each column of counts its bound field, or None where the layer has no such count."""
        return [self[count] if count in self.layer.counts else None for count in COUNTS]

    def length(self):
        """Return the bound field of the days or hours."""
        return self[self.length_name]

    def terms(self) -> Terms:
        counts = {name: self.cleaned_data[name] or 0 for name in self.layer.counts}
        return Terms(**{self.length_name: self.cleaned_data[self.length_name]}, **counts)

    def change(self) -> tuple[bool, Terms | None]:
        """Return (whether the rule changes, its new terms or None for the default)."""
        wants_default, terms = self.cleaned_data["default"], self.terms()
        if self.is_own and wants_default:
            return True, None
        return terms != self.found.terms, terms


class RulesForm:
    """The rules of all layers for the whole team, or for one environment."""

    def __init__(self, data, *, rules: Rules, environment: str = ""):
        self.environment, self.problem = environment, ""
        shown = [layer for layer in layers() if layer.by_environment or not environment]
        self.rows = [RuleForm(data, layer=layer, rules=rules, environment=environment) for layer in shown]

    def __iter__(self):
        return iter(self.rows)

    def is_valid(self) -> bool:
        return not any(row.errors for row in self.rows)

    def changes(self) -> Changes:
        found = {row.layer.name: row.change() for row in self.rows}
        return {(self.environment, name): terms for name, (differs, terms) in found.items() if differs}


class _Refusing(forms.Form):
    def refuse(self):
        """Raise a Problem with the first error of the form."""
        name, errors = next(iter(self.errors.items()))
        label = "" if name == "__all__" else f"{self.fields[name].label or name}: "
        raise invalid(f"{label}{errors[0]}")


class PutOffForm(_Refusing):
    days = forms.IntegerField(min_value=1, max_value=365, initial=7, label="Days")
    reason = forms.CharField(max_length=500, required=False, label="Reason")


class HoldForm(_Refusing):
    """A hold on a snapshot of a workspace, on a workspace, or without either on the whole team."""

    workspace = forms.CharField(max_length=64, required=False, label="Workspace", help_text="Empty: the whole team.")
    snapshot = forms.IntegerField(min_value=1, required=False, label="Snapshot", help_text="Empty: all of it.")
    reason = forms.CharField(max_length=500, label="Reason")
    until = forms.DateTimeField(
        required=False, label="Until", widget=forms.DateTimeInput(attrs={"type": "datetime-local"}), help_text="UTC."
    )

    def __init__(self, data=None, *, team):
        self.team = team
        super().__init__(data, prefix="hold")

    def clean(self):
        cleaned = super().clean()
        key, number = cleaned.get("workspace"), cleaned.get("snapshot")
        rows = Workspace.objects.filter(team=self.team, purged_at=None, key=key).order_by("-created_at")
        workspace = rows.select_related("team").first() if key else None
        if key and workspace is None:
            raise forms.ValidationError(f"There is no workspace {key}.")
        if number and workspace is None:
            raise forms.ValidationError("Name the workspace of the snapshot.")
        snapshot = Snapshot.objects.filter(workspace=workspace, number=number).first() if number else None
        if number and snapshot is None:
            raise forms.ValidationError(f"There is no snapshot {number} of {key}.")
        self.found = {"workspace": workspace, "snapshot": snapshot}
        return cleaned

    def wish(self) -> dict:
        """Return the keyword arguments of holds.hold."""
        return {"reason": self.cleaned_data["reason"], "until": self.cleaned_data["until"], **self.found}
