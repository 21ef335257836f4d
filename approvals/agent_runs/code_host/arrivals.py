"""Webhooks of code hosts: whose signature fits says that it is time to read; nothing else of them is believed."""

import hashlib
import hmac
from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.db.models import F

from approvals.agent_runs.code_host import repositories
from approvals.models import HostDelivery, HostedRepository, TaskThread
from dashboard.database import clock
from dashboard.problems import Problem, invalid
from dashboard.text.strict_json import loads
from workspaces import code_hosts

MAX_NAME = 100
REFUSED = "No repository that gives tasks has this address and this signature."
# kind: (headers that name a delivery, in the order of preference; header of the signature; what it begins with)
NAMES = {
    "github": ("X-GitHub-Delivery",),
    "gitlab": ("Idempotency-Key", "X-Gitlab-Event-UUID"),
    "gitea": ("X-Gitea-Delivery",),
    "forgejo": ("X-Forgejo-Delivery", "X-Gitea-Delivery"),
}
SIGNATURES = {
    "github": ("X-Hub-Signature-256",),
    "gitlab": ("X-Gitlab-Token",),
    "gitea": ("X-Gitea-Signature",),
    "forgejo": ("X-Forgejo-Signature", "X-Gitea-Signature"),
}


def arrived(kind: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Take a webhook: what it is about is read soon. Return False for one that came before.

    Problem 401 if no signature fits, which is counted, 422 for a body that names no repository or a delivery without a
    name.
    """
    address = _address_in(loads(body))
    rows = list(HostedRepository.objects.filter(kind=kind, address__iexact=address)) if address else []
    signed = [row for row in rows if _fits(kind, headers, body, repositories.webhook_of(row).secret)]
    if not signed:
        HostedRepository.objects.filter(pk__in=[row.pk for row in rows]).update(
            refused=F("refused") + 1, refused_at=clock.now()
        )
        raise Problem(401, REFUSED)
    name = _first(headers, NAMES[kind])[:MAX_NAME]
    if not name:
        raise invalid(f"The delivery has no name: {NAMES[kind][0]} is empty.")
    new = [row for row in signed if _noted(row, name, hashlib.sha256(body).hexdigest())]
    return bool(new)


def _address_in(payload) -> str:
    """Return the address of the repository that a webhook is about, as `HostedRepository.address`; "" without one."""
    for name in ("repository", "project"):
        about = payload.get(name) if isinstance(payload, dict) else None
        for field in ("html_url", "web_url", "homepage"):
            given = about.get(field) if isinstance(about, dict) else None
            if isinstance(given, str) and (found := code_hosts.repository_of(given)):
                return f"{found.base}/{found.path}"
    return ""


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _fits(kind: str, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    given = _first(headers, SIGNATURES[kind])
    if kind == "gitlab":
        return hmac.compare_digest(given.encode(), secret.encode())
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(given.encode(), (f"sha256={expected}" if kind == "github" else expected).encode())


def _noted(row: HostedRepository, name: str, sha256: str) -> bool:
    """Note the delivery, and that the repository and its threads are to be read; False if it is known."""
    now = clock.now()
    try:
        with transaction.atomic():
            HostDelivery.objects.create(repository=row, name=name, sha256=sha256, at=now)
    except IntegrityError:
        return False
    HostedRepository.objects.filter(pk=row.pk).update(delivered_at=now, read_at=now)
    TaskThread.objects.filter(repository=row, read_at__isnull=False).update(read_at=now)
    return True
