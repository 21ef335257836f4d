"""The prices that an admin sets for a team."""

from decimal import Decimal, InvalidOperation

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Actor, Event, Team
from dashboard.problems import invalid
from workspaces.models import Prices

LABELS = {
    "awake_hour": gettext_lazy("An hour awake"),
    "egress_gb": gettext_lazy("A gigabyte over the network"),
    "input_mtok": gettext_lazy("A million tokens read"),
    "output_mtok": gettext_lazy("A million tokens written"),
}


@transaction.atomic
def set_prices(team: Team, values: dict[str, str], *, by: Actor):
    """Set the currency and the prices from texts; "" is 0. Problem 422 for anything else than amounts."""
    Team.objects.take_turn(team.pk)
    prices = Prices.objects.filter(team=team).first() or Prices(team=team)
    before = as_text(prices)
    prices.currency = values["currency"].upper() or "EUR"
    if not (prices.currency.isascii() and prices.currency.isalpha() and len(prices.currency) == 3):
        raise invalid(gettext("A currency has three letters, such as EUR."), field="currency")
    for name in LABELS:
        try:
            setattr(prices, name, Decimal(values[name].replace(",", ".") or "0"))
            prices._meta.get_field(name).clean(getattr(prices, name), prices)
        except (InvalidOperation, ValidationError):
            raise invalid(gettext("Write a price as 0.25, at most four decimals."), field=name) from None
    if as_text(prices) != before:
        prices.save()
        Event.objects.record(team, actor=by, verb="team.prices_changed", subject=team, data=as_text(prices))


def as_text(prices: Prices) -> dict[str, str]:
    amounts = {name: f"{Decimal(getattr(prices, name)).normalize():f}" for name in LABELS}
    return {"currency": prices.currency} | amounts
