"""Secrets: set by people, handed to programs by phase, and never shown, logged or kept in the clear.

To hand one more value to programs (a token, say), name a function `(workspace, phase) -> {name: value}` in
settings.HANDRAIL_PHASE_ENV. It is called in the runner for each program that starts, with the phase "setup" or "agent";
what it returns reaches the program's environment the way secrets do (a pipe to the host process, the init's socket), is
taken out of what the program prints, and is written nowhere. So it must find or make its value anew after a restart of
the runner; `encrypt` and `decrypt` below keep one in a row. Call `remember` for a value that snapshots are to be
searched for as well.
"""

import hashlib
import re
import uuid
from datetime import datetime
from pathlib import Path

import ahocorasick_rs
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from dashboard import clock, keyring, redaction
from dashboard.failpoints import failpoint
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces import sealing
from workspaces.hosts.folder import Handed
from workspaces.models import Environment, HandedSecret, Scope, Secret, SecretFinding, Workspace

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
# What programs would no longer run without, or run otherwise with.
TAKEN = re.compile(
    r"(HANDRAIL_|LD_|GLIBC_).*|PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|PWD|IFS|ENV|BASH_ENV|LC_.*|"
    r"(HTTPS?|ALL|NO)_PROXY",
    re.IGNORECASE,
)
VALUE_BYTES = 16 * 1024  # an eighth of what one variable may have, and what a search sees across its pieces
PACKAGES = str(Path(ahocorasick_rs.__file__).parents[1])  # where a host finds what takes values out of output
SET, EXPIRED, MISSING, UNREADABLE = "set", "expired", "missing", "unreadable"
SCOPES = {"setup": Scope.SETUP, "agent": Scope.AGENT}


# What people do with them ---------------------------------------------------------------------------------------------


def put(team: Team, name: str, scope: str, value: str, *, expires_at=None, by: Actor, replace=False) -> Secret:
    """Set a secret, or with `replace` another value for it. Problem 422 and 409."""
    check_name(name)
    value = value.replace("\r\n", "\n")  # as browsers send lines
    _check_value(value)
    _check_expiry(expires_at)
    with keyring.steady() as ring, transaction.atomic():
        Team.objects.select_for_update().get(pk=team.pk)
        secret = Secret.objects.filter(team=team, name=name, scope=scope).first()
        if secret and not replace:
            raise conflict(f"There is a {name} for this phase already; replace its value on its own page.")
        verb = "secret.replaced" if secret else "secret.set"
        secret = secret or Secret(team=team, name=name, scope=scope)
        secret.value, secret.version = ring.encrypt(value.encode(), _about(secret)), uuid.uuid4()
        secret.expires_at, secret.set_at, secret.set_by = expires_at, clock.now(), _who(by)
        secret.save()
        Event.objects.record(team, actor=by, verb=verb, subject=secret, data=_data(secret))
    return secret


def change_expiry(secret: Secret, expires_at: datetime | None, *, by: Actor):
    _check_expiry(expires_at)
    with transaction.atomic():
        if Secret.objects.filter(pk=secret.pk).exclude(expires_at=expires_at).update(expires_at=expires_at):
            secret.expires_at = expires_at
            data = _data(secret)
            Event.objects.record(secret.team_id, actor=by, verb="secret.expiry_changed", subject=secret, data=data)


def delete(secret: Secret, *, by: Actor):
    """No program gets it any more. Workspaces that had it are searched for it until they are gone."""
    with transaction.atomic():
        if Secret.objects.filter(pk=secret.pk).delete()[0]:
            data = {"name": secret.name, "scope": secret.scope}
            Event.objects.record(secret.team_id, actor=by, verb="secret.deleted", subject=secret, data=data)


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise invalid(f"{name[:80]!r} is no name for a secret: letters, digits and _, and no digit first.")
    if TAKEN.fullmatch(name):
        raise invalid(f"{name} has a meaning of its own for programs; take another name.")
    return name


def _check_value(value: str):
    if not value:
        raise invalid("The value is empty.")
    if "\0" in value:
        raise invalid("A value holds no NUL: programs could not be given it.")
    if len(value.encode("utf-8", "surrogatepass")) > VALUE_BYTES:
        raise invalid(f"A value has at most {VALUE_BYTES:,} bytes.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid("A value is text.") from None


def _check_expiry(expires_at):
    if expires_at is not None and expires_at <= clock.now():
        raise invalid("That moment is over: name one to come, or none.")


def _about(secret: Secret) -> str:
    return f"secret {secret.pk} {secret.team_id} {secret.scope} {secret.name}"


def _about_handed(handed: HandedSecret) -> str:
    return f"handed {handed.pk} {handed.workspace_id} {handed.name}"


def _who(by: Actor) -> dict:
    return {"type": by.type, "id": by.id, "label": by.label}


def _data(secret: Secret) -> dict:
    expires = secret.expires_at.isoformat(timespec="seconds") if secret.expires_at else None
    return {"name": secret.name, "scope": secret.scope, "expires_at": expires}


# What programs get ----------------------------------------------------------------------------------------------------


def for_phase(workspace: Workspace, phase: str) -> dict[str, str]:
    """{variable: value} for the programs of a phase, "setup" or "agent". In the runner only.

    Expired and missing ones are left out; `problems` says which. What is returned is written down (encrypted) as
    handed to this workspace, before anybody has it.
    """
    found = {}
    names = _names(workspace.environment, phase)
    if names:
        with keyring.steady() as ring, transaction.atomic():
            now = clock.now()
            for secret in Secret.objects.filter(team=workspace.team_id, scope=SCOPES[phase], name__in=names):
                if secret.expires_at is None or secret.expires_at > now:
                    try:
                        value = ring.decrypt(secret.value, _about(secret))
                    except keyring.Unreadable:
                        continue
                    _note_handed(workspace, secret, value, ring)
                    found[secret.name] = value.decode()
    for path in settings.HANDRAIL_PHASE_ENV:
        found |= import_string(path)(workspace, phase)
    redaction.hide(found)
    return found


def handing(workspace: Workspace, phase: str | None) -> Handed:
    """What a host process is told: the variables of its phase (None: of none), and all values that it must not show."""
    env = for_phase(workspace, phase) if phase else {}
    hidden = dict.fromkeys([*env.items(), *handed_to(workspace)])
    return Handed(env, tuple(hidden), PACKAGES)


def handed_to(workspace: Workspace) -> list[tuple[str, str]]:
    """(name, value) of all that programs of this workspace were ever given. In the runner only."""
    return [(handed.name, value) for handed, value in handed_rows(workspace) if value is not None]


def handed_rows(workspace: Workspace) -> list[tuple[HandedSecret, str | None]]:
    """The rows with their values; None for what no key of the ring can read."""
    rows = list(HandedSecret.objects.filter(workspace=workspace).order_by("handed_at", "pk"))
    ring = keyring.load() if rows else None
    found = []
    for handed in rows:
        try:
            value = ring.decrypt(handed.value, _about_handed(handed)).decode()
            redaction.hide({handed.name: value})
        except keyring.Unreadable:
            value = None
        found.append((handed, value))
    return found


def remember(workspace: Workspace, name: str, phase: str, value: str):
    """From now on search what this workspace's programs write for a value that is no row of Secret."""
    with keyring.steady() as ring, transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        if (name, value) not in handed_to(workspace):
            secret = Secret(team_id=workspace.team_id, name=name, scope=SCOPES[phase])
            _note_handed(workspace, secret, value.encode(), ring)


def forget(workspace_id, name: str):
    """What was remembered under this name is worth nothing any more: it is not looked for."""
    HandedSecret.objects.filter(workspace=workspace_id, name=name).delete()


def _note_handed(workspace, secret: Secret, value: bytes, ring: keyring.Ring):
    if HandedSecret.objects.filter(workspace=workspace, version=secret.version).exists():
        return
    handed = HandedSecret(workspace=workspace, name=secret.name, scope=secret.scope, version=secret.version)
    handed.value, handed.handed_at = ring.encrypt(value, _about_handed(handed)), clock.now()
    # Two programs that start at the same moment are both given it; one of them notes it.
    HandedSecret.objects.bulk_create([handed], ignore_conflicts=True)


def encrypt(text: str, about: str) -> bytes:
    """For a row of one's own, saved inside `with keyring.steady()`; name its bytes in `_columns`."""
    return keyring.load().encrypt(text.encode(), about)


def decrypt(data: bytes, about: str) -> str:
    return keyring.load().decrypt(data, about).decode()


# What is there and what is not ----------------------------------------------------------------------------------------


def _names(environment: Environment, phase: str) -> list[str]:
    return list(environment.secrets.get(phase, []))


def standing(environment: Environment) -> list[tuple[str, str, str]]:
    """(phase, name, SET, EXPIRED, MISSING or UNREADABLE) of each secret that the environment names."""
    now, known = clock.now(), {}
    if environment.secrets:
        for secret in Secret.objects.filter(team=environment.team_id):
            known[secret.scope, secret.name] = state(secret, now)
    names = [(phase, name) for phase in SCOPES for name in _names(environment, phase)]
    return [(phase, name, known.get((SCOPES[phase], name), MISSING)) for phase, name in names]


def state(secret: Secret, now=None) -> str:
    if secret.expires_at is not None and secret.expires_at <= (now or clock.now()):
        return EXPIRED
    try:
        keyring.load().decrypt(secret.value, _about(secret))
    except keyring.Unreadable:
        return UNREADABLE
    return SET


def problems(environment: Environment, phase: str) -> str:
    """A sentence on the secrets that this phase needs and does not get; "" when it gets all."""
    words = {
        EXPIRED: "the secret {} has expired",
        MISSING: "there is no secret {} for this phase",
        UNREADABLE: "the secret {} cannot be read with the keys of this host",
    }
    found = [words[how].format(name) for of, name, how in standing(environment) if of == phase and how != SET]
    return ", and ".join(found)


# Findings -------------------------------------------------------------------------------------------------------------


def open_findings(workspace: Workspace):
    """Where a snapshot would keep a value, and nobody has said that it may."""
    return SecretFinding.objects.filter(workspace=workspace, kept_at=None).select_related("handed").order_by("path")


def keep_all_the_same(workspace: Workspace, ids: list[uuid.UUID], *, by: Actor) -> list[SecretFinding]:
    """A person's decision: these values may be in snapshots, in these files."""
    with transaction.atomic():
        found = list(open_findings(workspace).filter(pk__in=ids))
        SecretFinding.objects.filter(pk__in=[finding.pk for finding in found], kept_at=None).update(
            kept_at=clock.now(), kept_by=_who(by)
        )
        for finding in found:
            data = {"path": finding.path, "name": finding.handed.name}
            Event.objects.record(
                workspace.team_id, actor=by, verb="secret.kept", subject=finding, workspace=workspace, data=data
            )
    return found


def path_hash(path: bytes) -> str:
    return hashlib.sha256(path).hexdigest()


# Rotation -------------------------------------------------------------------------------------------------------------


def _columns():
    """(queryset, about) of each column that the ring's keys encrypt."""
    return [(Secret.objects.all(), _about), (HandedSecret.objects.all(), _about_handed)]


def rotate(say=print) -> keyring.Ring:
    """A new key, everything encrypted with it, the old ones removed. Killed anywhere it goes on where it was.

    What was encrypted with an old key meanwhile keeps that key in the ring until the next rotation.
    """
    ring = keyring.load()
    if len(ring.keys) == 1:
        ring = keyring.add_key()
        failpoint("rotate.added")
    moved = unreadable = 0
    for rows, about in _columns():
        for row in list(rows):
            if keyring.key_id(row.value) == ring.newest.id:
                continue
            failpoint("rotate.row")
            try:
                fresh = ring.encrypt(ring.decrypt(row.value, about(row)), about(row))
            except keyring.Unreadable:
                unreadable += 1
                continue
            # Only if nobody set another value meanwhile, which is encrypted with the new key then.
            moved += rows.filter(pk=row.pk, value=bytes(row.value)).update(value=fresh)
    failpoint("rotate.moved")
    ring = keyring.keep_only(_needed)
    say(f"{moved} values are encrypted with a new key now; the ring holds {len(ring.keys)}.")
    if unreadable:
        say(f"{unreadable} could not be read with any key of the ring and stay as they are: set those secrets again.")
    return ring


def forget_unreadable() -> int:
    """Remove the values that no key of the ring can read; how many."""
    ring, gone = keyring.load(), 0
    for rows, about in _columns():
        for row in list(rows):
            try:
                ring.decrypt(row.value, about(row))
            except keyring.Unreadable:
                gone += rows.filter(pk=row.pk).delete()[0] > 0
    return gone


def _needed() -> set[bytes]:
    found = {keyring.key_id(value) for rows, _ in _columns() for value in rows.values_list("value", flat=True)}
    return found | sealing.keys_in_use()
