"""Forms of the Measures page: a limit of the team, and its prices."""

from decimal import Decimal

from django import forms
from django.utils.translation import gettext_lazy

from dashboard.models import Team
from dashboard.site.measures import spending
from workspaces.models import Cap, CapMeasure, Prices
from workspaces.provisioning.caps import in_units

LABELS = {
    CapMeasure.AWAKE_HOURS: gettext_lazy("Hours awake a month"),
    CapMeasure.EGRESS_BYTES: gettext_lazy("Gigabytes over the network a month"),
    CapMeasure.WORKSPACES: gettext_lazy("Workspaces, without archived ones"),
    CapMeasure.DISK_BYTES: gettext_lazy("Gigabytes on disk"),
    CapMeasure.AGENT_TOKENS: gettext_lazy("Tokens of started agents a month"),
    CapMeasure.AGENT_COST: gettext_lazy("Cost of models of started agents a month, at the prices below"),
}
AMOUNT = {"inputmode": "decimal", "autocomplete": "off"}
MAX_TYPED = 40


class CapForm(forms.Form):
    """One limit of a team; an empty amount removes it."""

    amount = forms.CharField(required=False, max_length=MAX_TYPED, widget=forms.TextInput(attrs=AMOUNT))

    def __init__(self, data=None, *, measure: str, now: int | None = None):
        shown = "" if now is None else in_units(measure, now).replace(",", "")
        super().__init__(data, auto_id=f"cap-{measure}-%s", initial={"amount": shown})
        self.measure = measure
        self.fields["amount"].label = LABELS.get(measure, measure)
        self.fields["amount"].is_given = True  # the section says once that an empty one is no limit


class PricesForm(forms.Form):
    """The currency and the prices of a team; an empty price is 0."""

    currency = forms.CharField(
        label=gettext_lazy("Currency"),
        required=False,
        max_length=3,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, data=None, *, prices: Prices):
        now = {name: f"{Decimal(getattr(prices, name)).normalize():f}" for name in spending.LABELS}
        super().__init__(data, auto_id="price-%s", initial=now | {"currency": prices.currency})
        for name, label in spending.LABELS.items():
            field = forms.CharField(
                label=label, required=False, max_length=MAX_TYPED, widget=forms.TextInput(attrs=AMOUNT)
            )
            self.fields[name] = field
        for field in self.fields.values():
            field.is_given = True  # a price is always there, so none is called optional


def cap_forms(team: Team, refused: CapForm | None) -> list[CapForm]:
    """Return a form for each limit that can be set, with the one that was refused in its place."""
    now = dict(Cap.objects.filter(team=team).values_list("measure", "limit"))
    forms_now = [CapForm(measure=measure, now=now.get(measure)) for measure in LABELS]
    return [refused if refused and refused.measure == form.measure else form for form in forms_now]
