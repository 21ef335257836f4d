"""Receipts of purges: canonical JSON, signed with the log's key as manifests are."""

import hashlib
from collections import Counter, defaultdict

from django.db import transaction

from dashboard.database import clock
from dashboard.keys import log_key
from dashboard.models import Actor, Event
from handrail_verify import canonical, signed
from workspaces.models import PurgeReceipt
from workspaces.services.scrub.places import Place
from workspaces.services.scrub.purging import Purged

MAX_NAMED = 200  # places of one group that a receipt names


VERBS = {"person": "person.purged"}  # the event of a receipt about that; else a value was purged


def write(
    team, done: Purged, *, about: str, fingerprint: str, reason: str, by: Actor, asked_at, more: dict | None = None
) -> PurgeReceipt:
    """Sign and save the receipt, and record the event that names its digest. `more`: further parts of the receipt."""
    now = clock.now()
    body = {
        "receipt": 1,
        "team": team.slug,
        "about": about,
        "keyed_hash": fingerprint,
        "reason": reason,
        "by": {"type": by.type, "id": by.id, "label": by.label},
        "asked_at": asked_at.isoformat(timespec="seconds"),
        "ended_at": now.isoformat(timespec="seconds"),
        "removed": _groups(done.removed),
        "not_removed": _groups(done.kept),
        "store": done.freed,
        "not_touched": done.not_searched,
    } | (more or {})
    return _save(team, body, {"removed": len(done.removed), "kept": len(done.kept)}, by, now)


@transaction.atomic
def _save(team, body: dict, counts: dict, by: Actor, now) -> PurgeReceipt:
    text = canonical.dumps(body)
    receipt = PurgeReceipt.objects.create(
        team=team,
        body=body,
        sha256=hashlib.sha256(text).hexdigest(),
        signature=signed.sign(text, log_key.private_key(), signed.RECEIPT_PREFIX),
        created_at=now,
    )
    data = {"about": body["about"], "reason": body["reason"], "sha256": receipt.sha256} | counts
    Event.objects.record(team, actor=by, verb=VERBS.get(body["about"], "data.purged"), subject=receipt, data=data)
    return receipt


def _groups(places: list[Place]) -> list[dict]:
    """Return places by what they are and why they stay, with their number and the first by name."""
    found: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place in places:
        found[place.what, place.why_kept].append(place)
    return [
        {"what": what, "count": len(some), "files": sum(place.count for place in some), "named": _named(some)}
        | ({"because": why} if why else {})
        for (what, why), some in sorted(found.items())
    ]


def _named(places: list[Place]) -> list[str]:
    """Return what stays verifiable without being readable: the workspace and id or number of each, never a text."""
    names = Counter(f"{place.workspace}: {place.name}" if place.kind == "snapshot" else place.pk for place in places)
    return [name for name in sorted(names) if name][:MAX_NAMED]


def as_download(receipt: PurgeReceipt) -> dict:
    return signed.as_download(receipt.body, receipt.sha256, receipt.signature, log_key.public_key())
