"""What an agent sends to register or change an instance: a name, and where its receiver is and how it knows us.

Each process loads this module at its start, for the rotation of keys, so it needs no HTTP client.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from approvals import calls
from approvals.models import AapInstance
from approvals.notify.reach import is_acceptable_endpoint
from dashboard import strict_json
from dashboard.problems import Problem

MAX_NAME = 120  # characters
MAX_BODY = 10_000  # bytes
# 32 bytes as padded base64; the last character before the padding has two bits to spare, which are 0.
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
DELIVERY = ("type", "url", "registration_id", "signing_secret")
BAD_URL_CODE = "invalid_webhook_url"
BAD_URL = "A receiver is an https address that is not private, without a password and without a fragment."


@dataclass(frozen=True)
class Delivery:
    """Where a receiver is, the id by which it expects this registration, and the secret that signs what it gets."""

    url: str
    registration_id: str
    secret: str


@dataclass(frozen=True)
class Registration:
    name: str  # "": we choose one
    delivery: Delivery | None
    sha256: str  # of what was sent; with the secret in it nobody can guess its contents


@dataclass(frozen=True)
class Change:
    name: str  # "": it stays
    delivery: Delivery | None  # in place of the one before
    removes: bool  # the receiver
    sha256: str  # as above


def parse(body: bytes) -> Registration:
    """Parse a registration. Problem 400, 413, 422."""
    told = _told(body)
    delivery = _delivery(told["delivery"]) if "delivery" in told else None
    return Registration(_name(told), delivery, calls.sha256(strict_json.canonical(told)))


def parse_change(body: bytes) -> Change:
    """Parse a change. Problem 400, 413, 422."""
    told = _told(body)
    if not told:
        raise _bad("A change needs instance_name, delivery or both.")
    given = told.get("delivery")
    return Change(
        _name(told),
        _delivery(given) if given is not None else None,
        removes="delivery" in told and given is None,
        sha256=calls.sha256(strict_json.canonical(told)),
    )


def _told(body: bytes) -> dict:
    if len(body) > MAX_BODY:
        raise Problem(413, f"This may have {MAX_BODY:,} bytes.")
    told = strict_json.loads(body)
    if not isinstance(told, dict) or told.keys() - {"instance_name", "delivery"}:
        raise _bad("It must be an object with instance_name, delivery or both, and nothing else.")
    return told


def _name(told: dict) -> str:
    name = told.get("instance_name", "")
    is_name = isinstance(name, str) and name.isprintable() and len(name) <= MAX_NAME
    if not is_name or ("instance_name" in told and not name.strip()):
        raise _bad(f"instance_name must be a text of 1 to {MAX_NAME} characters.")
    return name


def _delivery(told) -> Delivery:
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        raise _bad("delivery must be an object with a type.")
    if told["type"] != "webhook":
        raise _bad("The only type of delivery is webhook.", code="unsupported_delivery_type")
    if set(told) != set(DELIVERY) or not all(isinstance(value, str) for value in told.values()):
        raise _bad(f"delivery must have exactly these texts: {', '.join(DELIVERY)}.")
    if not is_acceptable_endpoint(told["url"]) or "#" in told["url"]:
        raise bad_url()
    if not _is_uuid(told["registration_id"]):
        raise _bad("registration_id must be a UUID.")
    if not SECRET.fullmatch(told["signing_secret"]):
        raise _bad("signing_secret must be whsec_ and 32 bytes as padded base64.")
    return Delivery(told["url"], told["registration_id"], told["signing_secret"])


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def bad_url() -> Problem:
    return _bad(BAD_URL, code=BAD_URL_CODE)


def _bad(detail: str, **extra) -> Problem:
    return Problem(400, detail, **extra)


def associated_data(instance: AapInstance) -> str:
    return f"AAP instance {instance.pk}"


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys (workspaces.secrets)."""
    return AapInstance.objects.exclude(value=None), associated_data
