"""Let another host join: make its token, and answer it once with the keys and settings that all hosts share."""

import hmac
import logging
import re
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection, transaction

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.net.addresses import is_loopback
from dashboard.problems import Problem, conflict, gone, invalid, not_allowed
from dashboard.text.setting_values import given
from workspaces.host import join_tokens, same_keys, versions
from workspaces.models import JoinToken, Runner

logger = logging.getLogger("handrail.hosts")
LASTS = timedelta(minutes=15)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,119}")
NEEDS_SERVER = (
    "This desk keeps its database in a file, which no other host can use. Set DATABASE_URL to a PostgreSQL database, "
    "start again, and add the host then (docs/many-machines.md)."
)
# Settings that all hosts of an installation have alike. Each host has its own folders, addresses, limits and drivers.
SHARED = (
    "DATABASE_URL",
    "HANDRAIL_BUCKET",
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "HANDRAIL_PREVIEW_HOST",
    "HANDRAIL_TRUSTED_PROXIES",
    "HANDRAIL_OIDC_ISSUER",
    "HANDRAIL_OIDC_NAME",
    "HANDRAIL_OIDC_CLIENT_ID",
    "HANDRAIL_OIDC_CLIENT_SECRET",
    "HANDRAIL_OIDC_SCOPES",
    "HANDRAIL_OIDC_GROUPS_CLAIM",
    "HANDRAIL_OIDC_ROLES",
    "HANDRAIL_OIDC_USERNAME_CLAIM",
    "HANDRAIL_OIDC_SECOND_FACTOR",
    "HANDRAIL_OIDC_SESSION_HOURS",
    "HANDRAIL_OIDC_ROLE_DAYS",
    "HANDRAIL_OIDC_BREAK_GLASS",
    "HANDRAIL_HOLD_SECONDS",
    "HANDRAIL_EXPIRY_SECONDS",
    "HANDRAIL_CONSUME_SECONDS",
    "HANDRAIL_HELD",
    "HANDRAIL_UNHELD",
    "HANDRAIL_NOTIFY_NETWORKS",
    "HANDRAIL_NOTIFY_CONTACT",
    "HANDRAIL_PENDING_LIMIT",
    "HANDRAIL_AGENT_PENDING_LIMIT",
    "HANDRAIL_MODEL_UPSTREAMS",
    "HANDRAIL_PRIVATE_SOURCES",
    "HANDRAIL_EGRESS_NETWORKS",
    "HANDRAIL_PULL_FROM",
    "HANDRAIL_IDLE_SECONDS",
    "HANDRAIL_STOP_SECONDS",
    "HANDRAIL_SNAPSHOT_SECONDS",
    "HANDRAIL_TRASH_DAYS",
    "HANDRAIL_SWEEP_HOUR",
    "HANDRAIL_OUTPUT_BYTES",
    "HANDRAIL_BODY_BYTES",
    "HANDRAIL_FILE_BYTES",
    "HANDRAIL_UPLOAD_BYTES",
    "HANDRAIL_UNPACKED_BYTES",
    "HANDRAIL_UNPACKED_ENTRIES",
)


def add(host: str) -> str:
    """Return a token with which one new host joins under this name, within LASTS. Problem 409, 422."""
    if not NAME.fullmatch(host):
        raise invalid("The name of a host has letters, digits, dots and hyphens, at most 120.")
    _refuse_file_database()
    _refuse_taken(host)
    token = join_tokens.make()
    JoinToken.objects.filter(host=host, used_at=None).delete()  # the newest one counts
    JoinToken.objects.create(
        code=token.code, host=host, sha256=sha256(token.secret).hexdigest(), expires_at=clock.now() + LASTS
    )
    return str(token)


def advice() -> list[str]:
    """Return what to know before another host joins, as sentences."""
    found, host = [], connection.settings_dict["HOST"]
    if host.startswith("/") or host == "" or is_loopback(host):
        found.append(
            "The address in DATABASE_URL reaches the database from this machine only. Set one that the new host can "
            "use, there or here."
        )
    if is_loopback(urlsplit(settings.HANDRAIL_PUBLIC_URL).hostname):
        found.append("HANDRAIL_PUBLIC_URL is an address of this machine, so another one cannot ask this desk.")
    if "HANDRAIL_BUCKET" not in given():
        found.append("Without HANDRAIL_BUCKET the workspaces of a team stay on the host that has its snapshots.")
    return found


def answer(code: str, public_key: str, sealed: str) -> str:
    """Return what the new host needs, sealed for it, and use its token up. Problem 403, 409, 410."""
    _refuse_file_database()
    try:
        channel = join_tokens.of_desk(code, public_key)
        asked = channel.open(sealed, join_tokens.ASK)
    except join_tokens.BadToken:
        raise not_allowed("This desk did not make this token. Use the address and the token of one line.") from None
    token = JoinToken.objects.filter(code=code).first()
    secret = bytes.fromhex(asked["secret"])
    if token is None or not hmac.compare_digest(token.sha256, sha256(secret).hexdigest()):
        raise not_allowed("This desk does not know this token any more. `manage.py host add NAME` makes another one.")
    _refuse(token, asked)
    with transaction.atomic():
        used = JoinToken.objects.filter(pk=token.pk, used_at=None).update(used_at=clock.now())
        if not used:
            raise _used(token)
        _refuse_taken(token.host)
        values = {"installation": asked["installation"], "home": asked["home"][:400], "version": asked["version"]}
        values |= {"removed_at": None, "draining_at": None, "lost_at": None}
        Runner.objects.update_or_create(host=token.host, defaults=values)
        data = {"host": token.host, "version": asked["version"]}
        Event.objects.record_for_all(actor=Actor.system("manage.py join"), verb="host.joined", data=data)
    logger.warning("%s joins this installation", token.host)
    return channel.seal(_shared(token.host), join_tokens.ANSWER)


def _refuse_file_database():
    if connection.vendor != "postgresql":
        raise conflict(NEEDS_SERVER, code="needs_postgresql")


def _refuse_taken(host: str):
    row = Runner.objects.members().filter(host=host).exclude(installation="").first()
    if row is not None:
        raise conflict(
            f"A host {host} is a member already (home {row.home}). Choose another name, or remove it first: "
            f"`manage.py host remove {host}`."
        )


def _refuse(token: JoinToken, asked: dict):
    """Refuse a token that cannot be used, without using it up."""
    if token.used_at is not None:
        raise _used(token)
    if token.expires_at <= clock.now():
        raise gone(
            f"This token for {token.host} expired at {token.expires_at:%H:%M} UTC. `manage.py host add {token.host}` "
            "makes another one.",
            code="expired",
        )
    if asked["host"] not in ("", token.host):
        raise conflict(
            f"This token is for {token.host}, and HANDRAIL_HOST_NAME there is {asked['host']}.", code="another_host"
        )
    if words := versions.refusal(asked["version"], host=token.host):
        raise conflict(words, code="version")


def _used(token: JoinToken) -> Problem:
    return conflict(
        f"This token was used already: it was for {token.host}. `manage.py host add NAME` makes another one.",
        code="used",
    )


def _shared(host: str) -> dict:
    """Return {host, keys: {file: base64}, settings: {variable: value}}."""
    known = given()
    values = {name: known[name] for name in SHARED if name in known}
    values["HANDRAIL_PUBLIC_URL"] = settings.HANDRAIL_PUBLIC_URL
    keys = {name: b64encode(key).decode() for name, key in same_keys.read().items()}
    return {"host": host, "keys": keys, "settings": values | {"HANDRAIL_HOST_NAME": host}}
