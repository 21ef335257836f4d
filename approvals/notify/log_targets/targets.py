"""Add, switch and remove the targets of a team's log."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from approvals.models import LogTarget, TargetKind
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.models import Actor, Event, Team
from dashboard.net import standard_webhooks
from dashboard.problems import conflict, invalid, not_found
from workspaces.services.outbound import is_acceptable_endpoint, may_be_sent_to

MAX_TARGETS = 10  # of one team
HOST = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


def add(team: Team, kind: str, address: str, *, only_alerts=False, from_start=False, by: Actor):
    """Add a target and return (it, a webhook's signing key or ""); the key is shown only here.

    It gets what happens from now on, or with `from_start` the whole log. Problem 422 for an address that is not taken,
    409 for one that is there already.
    """
    address = _checked(kind, address.strip())
    key = standard_webhooks.make_secret() if kind == TargetKind.WEBHOOK else ""
    with keyring.steady() as ring, transaction.atomic():
        seq = Team.objects.locked().get(pk=team.pk).event_seq
        if team.log_targets.count() >= MAX_TARGETS:
            raise conflict(f"A team has at most {MAX_TARGETS} targets.", field="kind")
        if team.log_targets.filter(kind=kind, address=address).exists():
            raise conflict("This target is there already.", field="address")
        found = LogTarget(team=team, kind=kind, address=address, created_at=clock.now())
        found.cursor = 0 if from_start else seq
        found.only_alerts = only_alerts or kind == TargetKind.ADMINS
        found.value = ring.encrypt(key.encode(), associated_data(found)) if key else None
        found.save(force_insert=True)
        _record(found, "log.target_added", by)
    return found, key


def _checked(kind: str, address: str) -> str:
    if kind == TargetKind.WEBHOOK:
        if not is_acceptable_endpoint(address):
            raise invalid("A webhook is an https address that is not private.", field="address")
        return address
    if kind == TargetKind.SYSLOG:
        return _checked_syslog(address)
    if kind in (TargetKind.FOLDER, TargetKind.ADMINS):
        return ""
    raise invalid(f"A kind is one of {', '.join(TargetKind.values)}.", field="kind")


def _checked_syslog(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("tls", "tcp") or not HOST.fullmatch(host) or not port or parts.path not in ("", "/"):
        raise invalid("Syslog is tls://HOST:PORT, or tcp://HOST:PORT in a network of yours.", field="address")
    if parts.scheme == "tcp" and re.fullmatch(r"[0-9.:]+", host) and not may_be_sent_to(host):
        raise invalid("This address is private. HANDRAIL_NOTIFY_NETWORKS lists those that are taken.", field="address")
    return f"{parts.scheme}://{parts.netloc}"


def switch(target: LogTarget, active: bool, *, by: Actor):
    """Switch a target off, or on again: it then gets what it missed."""
    with Team.objects.turn(target.team_id):
        changed = LogTarget.objects.filter(pk=target.pk, active=not active)
        if changed.update(active=active, next_try_at=None):
            _record(target, "log.target_on" if active else "log.target_off", by)


def remove(target: LogTarget, *, by: Actor):
    with Team.objects.turn(target.team_id):
        if not LogTarget.objects.filter(pk=target.pk).delete()[0]:
            raise not_found("target")
        _record(target, "log.target_removed", by)


def _record(target: LogTarget, verb: str, by: Actor):
    data = {"kind": target.kind, "address": target.address, "only_alerts": target.only_alerts}
    Event.objects.record(target.team, actor=by, verb=verb, subject=target.team, data=data)


def folder_of(team: Team) -> Path:
    """Return the folder of this machine that a target of the kind `folder` writes to."""
    return Path(settings.HANDRAIL_EXPORTS) / team.slug


def associated_data(target: LogTarget) -> str:
    return f"log target {target.pk}"


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys (workspaces.secrets)."""
    return LogTarget.objects.exclude(value=None), associated_data
