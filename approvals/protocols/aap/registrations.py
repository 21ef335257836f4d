"""Parse the bodies that register or change an instance: its name, and its webhook receiver.

Every process imports this module at its start, for the rotation of keys, so it imports no HTTP client.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from approvals.evaluation import calls
from approvals.models import AapInstance
from dashboard.problems import Problem
from dashboard.text import strict_json
from workspaces.services.outbound import is_acceptable_endpoint

MAX_NAME = 120  # characters
MAX_BODY = 10_000  # bytes
# 32 bytes as padded base64; the last character before the padding has two bits to spare, which are 0.
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
DELIVERY = ("type", "url", "registration_id", "signing_secret")
BAD_URL_CODE = "invalid_webhook_url"
BAD_URL = "A receiver is an https address that is not private, without a password and without a fragment."


@dataclass(frozen=True)
class Delivery:
    """A webhook receiver: its URL, its own id of this registration, and the secret that signs webhooks to it."""

    url: str
    registration_id: str
    secret: str


@dataclass(frozen=True)
class Registration:
    name: str  # "": Handrail chooses one
    delivery: Delivery | None
    sha256: str  # of the body; it includes the secret, so the body can't be guessed from it


@dataclass(frozen=True)
class Change:
    name: str  # "": unchanged
    delivery: Delivery | None  # the new receiver
    removes: bool  # whether the receiver is removed
    sha256: str  # as above


def parse(body: bytes) -> Registration:
    """Parse a registration. Problem 400, 413, 422."""
    payload = _payload(body)
    delivery = _delivery(payload["delivery"]) if "delivery" in payload else None
    return Registration(_name(payload), delivery, calls.sha256(strict_json.canonical(payload)))


def parse_change(body: bytes) -> Change:
    """Parse a change. Problem 400, 413, 422."""
    payload = _payload(body)
    if not payload:
        raise _bad("A change needs instance_name, delivery or both.")
    given = payload.get("delivery")
    return Change(
        _name(payload),
        _delivery(given) if given is not None else None,
        removes="delivery" in payload and given is None,
        sha256=calls.sha256(strict_json.canonical(payload)),
    )


def _payload(body: bytes) -> dict:
    if len(body) > MAX_BODY:
        raise Problem(413, f"The body has at most {MAX_BODY:,} bytes.")
    payload = strict_json.loads(body)
    if not isinstance(payload, dict) or payload.keys() - {"instance_name", "delivery"}:
        raise _bad("The body must be an object with instance_name, delivery or both, and no other fields.")
    return payload


def _name(payload: dict) -> str:
    name = payload.get("instance_name", "")
    is_name = isinstance(name, str) and name.isprintable() and len(name) <= MAX_NAME
    if not is_name or ("instance_name" in payload and not name.strip()):
        raise _bad(f"instance_name must be a string of 1 to {MAX_NAME} characters.")
    return name


def _delivery(payload) -> Delivery:
    if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
        raise _bad("delivery must be an object with a type.")
    if payload["type"] != "webhook":
        raise _bad("The only type of delivery is webhook.", code="unsupported_delivery_type")
    if set(payload) != set(DELIVERY) or not all(isinstance(value, str) for value in payload.values()):
        raise _bad(f"delivery must have exactly these strings: {', '.join(DELIVERY)}.")
    if not is_acceptable_endpoint(payload["url"]) or "#" in payload["url"]:
        raise bad_url()
    if not _is_uuid(payload["registration_id"]):
        raise _bad("registration_id must be a UUID.")
    if not SECRET.fullmatch(payload["signing_secret"]):
        raise _bad("signing_secret must be whsec_ and 32 bytes as padded base64.")
    return Delivery(payload["url"], payload["registration_id"], payload["signing_secret"])


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
