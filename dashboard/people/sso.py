"""The identity provider in force, from the environment or the Django admin, and whether local sign-in is closed."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction

from dashboard.keys import keyring
from dashboard.models import Event, IdentityProvider, Team
from dashboard.net.oidc_settings import Rule

PROVIDER_ID = "sso"  # in addresses, and of allauth's rows


@dataclass(frozen=True)
class Provider:
    """What a sign-in needs to know of the provider; the secret is decrypted only by `secret`."""

    issuer: str
    name: str
    client_id: str
    scopes: str
    groups_claim: str
    username_claim: str
    second_factor_values: str
    session_hours: int
    break_glass: str  # name of the only person whose password signs in; "": passwords are on
    row: IdentityProvider | None = None

    def secret(self) -> str:
        """Return the client secret. Raise Unreadable if the key ring has not its key."""
        if self.row is None:
            return settings.HANDRAIL_OIDC["secret"]
        if not self.row.value:
            return ""
        return keyring.load().decrypt(self.row.value, associated_data(self.row)).decode()

    def rules(self) -> list[Rule]:
        if self.row is None:
            return list(settings.HANDRAIL_OIDC["rules"])
        rules = self.row.rules.select_related("team").order_by("pk")
        return [Rule(rule.group, rule.team.slug, rule.role) for rule in rules]

    def is_second_factor(self, claims: dict) -> bool:
        """Return True if the claims amr or acr have a value that the admin listed as a second factor."""
        listed = {value.strip() for value in self.second_factor_values.split(",")} - {""}
        methods = claims.get("amr")
        told = {method for method in methods if isinstance(method, str)} if isinstance(methods, list) else set()
        return bool(listed & (told | {str(claims.get("acr", ""))}))


def in_force() -> Provider | None:
    """Return the provider of the environment, else the active one of the Django admin, else None."""
    told = settings.HANDRAIL_OIDC
    if told["issuer"]:
        return Provider(**{name: value for name, value in told.items() if name not in ("secret", "rules")})
    row = IdentityProvider.objects.filter(active=True).select_related("break_glass").first()
    if row is None:
        return None
    shared = ("issuer", "name", "client_id", "scopes", "groups_claim", "username_claim", "second_factor_values")
    left = row.break_glass.get_username() if row.only and row.break_glass else ""
    told = {name: getattr(row, name) for name in (*shared, "session_hours")}
    return Provider(**told, break_glass=left, row=row)


def local_sign_in_is_closed(username: str) -> bool:
    """Return True if passwords and passkeys are off for this person."""
    provider = in_force()
    return bool(provider and provider.break_glass and provider.break_glass != username)


def why_not_break_glass(user) -> str:
    """Return why passwords can't be off for all but this person, as a sentence; "" if they can."""
    if user is None:
        return "Name the person whose password still signs in."
    if not (user.is_active and user.is_superuser):
        return "This must be an active superuser."
    return "" if user.has_usable_password() else "This person has no password yet, and could not sign in."


@transaction.atomic
def save(row: IdentityProvider, secret: str):
    """Save the row, with a new client secret unless that is empty."""
    with keyring.steady() as ring:
        row.save()
        if secret:
            row.value = ring.encrypt(secret.encode(), associated_data(row))
            row.save(update_fields=["value"])


def record_rules(row: IdentityProvider, teams: set[Team], *, by):
    """Record in the log of each of the teams which groups have which role there from now on."""
    for team in sorted(teams, key=lambda team: team.slug):
        rules = [f"{rule.group}: {rule.role}" for rule in row.rules.filter(team=team).order_by("group")]
        Event.objects.record(team, actor=by, verb="team.groups_changed", subject=team, data={"groups": rules})


def associated_data(row: IdentityProvider) -> str:
    return f"identity provider {row.pk}"


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys (workspaces.secrets)."""
    return IdentityProvider.objects.exclude(value=None), associated_data


def break_glass_person():
    """Return the person whose password signs in when passwords are off; None if they are on."""
    provider = in_force()
    name = provider.break_glass if provider else ""
    return get_user_model().objects.filter(username=name).first() if name else None
