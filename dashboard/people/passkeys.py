"""The passkeys of people: for which address each was made, and whether it works at ours."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from django.conf import settings

from dashboard.net.addresses import is_loopback

DEFAULT_PORTS = {"http": 80, "https": 443}


def relying_party() -> str:
    """Return the name that new passkeys are made for: the host that browsers know Handrail by."""
    return urlsplit(settings.HANDRAIL_DESK_URL).hostname or ""


def origin() -> str:
    """Return the origin of our pages as browsers write it. Passkeys are used from no other, also not another port."""
    parts = urlsplit(settings.HANDRAIL_DESK_URL)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port and parts.port != DEFAULT_PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{host}{port}"


def why_not_at(url: str) -> str:
    """Return why no browser uses passkeys at this address, as a sentence; "" if they work there."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and not is_loopback(host):
        return "Browsers offer it only over https."
    try:
        ip_address(host)
    except ValueError:
        return ""
    return "Passkeys need a host name, not an IP address."


def of(user):
    """Return the queryset of a person's passkeys, oldest first, wherever they work."""
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.WEBAUTHN).order_by("created_at", "pk")


def usable_by(user) -> list[Authenticator]:
    """Return the person's passkeys that were made for this address."""
    return [passkey for passkey in of(user) if passkey.data.get("rp_id") == relying_party()]


def credential_id(passkey: Authenticator) -> str:
    """Return the id by which browsers and authenticators know a passkey, in base64url."""
    return passkey.data["credential"]["rawId"]


def made_elsewhere():
    """Return the queryset of all passkeys that another address was used for: they don't work at this one."""
    of_all = Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN)
    return of_all.exclude(data__rp_id=relying_party())


def warning() -> str:
    """Say how many passkeys don't work at the present address; "" if all do."""
    found = list(made_elsewhere().values_list("user", "data__rp_id"))
    if not found:
        return ""
    people, names = len({user for user, _ in found}), sorted({name or "another address" for _, name in found})
    count = "1 passkey" if len(found) == 1 else f"{len(found)} passkeys"
    whose = "1 person" if people == 1 else f"{people} people"
    return f"{count} of {whose} made for {', '.join(names)} can't be used at {relying_party()}."


WAY_OUT = (
    "Set HANDRAIL_PUBLIC_URL back, or let people sign in with their password and a recovery code and add a passkey for "
    "this address. `manage.py reset_second_factor NAME` removes what somebody can no longer use."
)
