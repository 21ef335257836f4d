"""The rules in force: a team's own rule for an environment, else its rule for the whole team, else the default."""

from dataclasses import dataclass

from django.core.exceptions import ValidationError

from dashboard.models import Actor, Event
from dashboard.problems import invalid
from workspaces.models import Environment, RetentionRule
from workspaces.services.retention.layers import COUNTS, Layer, Terms, layer_named, layers

DEFAULT, TEAM, ENVIRONMENT = "default", "team", "environment"


@dataclass(frozen=True)
class InForce:
    """The terms of a layer for one environment ("": the whole team), and whose they are."""

    layer: Layer
    environment: str
    terms: Terms
    source: str  # default, team or environment

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT


class Rules:
    """The rules of one team: {(environment, layer name): Terms}."""

    def __init__(self, own: dict[tuple[str, str], Terms]):
        self.own = own

    @classmethod
    def of(cls, team) -> "Rules":
        rows = RetentionRule.objects.filter(team=team)
        return cls({(row.environment, row.layer): terms_of(row) for row in rows})

    def in_force(self, layer: Layer, environment: str = "") -> InForce:
        for name, source in ((environment, ENVIRONMENT if environment else TEAM), ("", TEAM)):
            if (name, layer.name) in self.own:
                return InForce(layer, environment, self.own[name, layer.name], source)
        return InForce(layer, environment, layer.default, DEFAULT)

    def environments(self) -> list[str]:
        """Return the environments that have a rule of their own."""
        return sorted({environment for environment, _ in self.own if environment})

    def all_in_force(self) -> list[InForce]:
        """Return the rule of each layer for the whole team, then the ones that environments have of their own."""
        found = [self.in_force(layer) for layer in layers()]
        names = {layer.name for layer in layers()}
        own = [key for key in sorted(self.own) if key[0] and key[1] in names]
        return found + [self.in_force(layer_named(name), environment) for environment, name in own]

    def changed(self, changes: dict[tuple[str, str], Terms | None]) -> "Rules":
        """Return the rules after some changes; None removes the team's own rule, so that the next one applies."""
        own = {key: terms for key, terms in (self.own | changes).items() if terms is not None}
        return Rules(own)


def terms_of(row: RetentionRule) -> Terms:
    return Terms(row.days, *(getattr(row, f"keep_{count}") for count in COUNTS), hours=row.hours)


def check(team, changes: dict[tuple[str, str], Terms | None]):
    """Problem 422 for a layer or environment that does not exist, or terms that the layer does not have."""
    names = set(Environment.objects.filter(team=team).values_list("name", flat=True))
    for (environment, name), terms in changes.items():
        try:
            layer = layer_named(name)
        except KeyError:
            if terms is None:
                continue
            raise invalid(f"There is no retention layer {name[:40]!r}.") from None
        if terms is not None and environment and environment not in names:
            raise invalid(f"There is no environment {environment[:80]!r} in this team.")
        if environment and not layer.by_environment:
            raise invalid(f"{layer.label}: one rule for the whole team; an environment can't have its own.")
        if terms is not None:
            _check_terms(layer, terms)


def _check_terms(layer: Layer, terms: Terms):
    if layer.must_end and terms.days is None:
        raise invalid(f"{layer.label}: give a number of days.")
    if layer.in_hours and (terms.hours is None or terms.days is not None):
        raise invalid(f"{layer.label}: give a number of hours, and no days.")
    if terms.hours is not None and not layer.in_hours:
        raise invalid(f"{layer.label}: give days, not hours.")
    extra = [count for count in COUNTS if getattr(terms, count) and count not in layer.counts]
    if extra:
        raise invalid(f"{layer.label}: only days apply, not {', '.join(extra)}.")
    row = RetentionRule(**_columns(terms))
    try:
        row.clean_fields(exclude=["team", "layer"])
    except ValidationError as error:
        raise invalid(f"{layer.label}: {error.messages[0]}") from None


def save(team, changes: dict[tuple[str, str], Terms | None], *, by: Actor) -> bool:
    """Save changed rules and record what changed, with the terms before. Return False if nothing did."""
    check(team, changes)
    with type(team).objects.turn(team.pk):
        before = Rules.of(team)
        after = before.changed(changes)
        differing = {key for key in before.own.keys() | after.own.keys() if before.own.get(key) != after.own.get(key)}
        for environment, layer in differing:
            _write(team, environment, layer, after.own.get((environment, layer)))
        if differing:
            rules = [_change_text(key, before.own.get(key), after.own.get(key)) for key in sorted(differing)]
            Event.objects.record(team, actor=by, verb="retention.saved", subject=team, data={"rules": rules})
    return bool(differing)


def _write(team, environment: str, layer: str, terms: Terms | None):
    where = {"team_id": team.pk, "environment": environment, "layer": layer}
    if terms is None:
        RetentionRule.objects.filter(**where).delete()
        return
    RetentionRule.objects.update_or_create(**where, defaults=_columns(terms))


def _columns(terms: Terms) -> dict:
    return {"days": terms.days, "hours": terms.hours} | {f"keep_{count}": getattr(terms, count) for count in COUNTS}


def _change_text(key: tuple[str, str], before: Terms | None, after: Terms | None) -> str:
    environment, layer = key
    place = f"{layer} of {environment}" if environment else layer
    return f"{place}: {in_words(after) if after else 'default'} (before: {in_words(before) if before else 'default'})"


def in_words(terms: Terms) -> str:
    """Return terms for the log, for example "90 days, newest 20, weekly 26"."""
    counts = [f"{count} {getattr(terms, count)}" for count in COUNTS if getattr(terms, count)]
    return ", ".join([_length(terms), *counts])


def _length(terms: Terms) -> str:
    number, unit = (terms.days, "day") if terms.hours is None else (terms.hours, "hour")
    return "for ever" if number is None else f"{number} {unit}{'' if number == 1 else 's'}"
