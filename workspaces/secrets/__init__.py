"""Secrets: set by people, handed to programs by phase, and never shown, logged or kept in the clear.

`handed_to_program` returns what a program's shim gets by a pipe: the variables of its environment, and the values that
the shim redacts from its output. Its argument `more` adds derived values, such as a Run's token, which are stored
nowhere and so are derived again after a restart of the runner. `encrypt` and `decrypt` keep a value in a row;
`search_for` has snapshots searched for it.
"""

import hashlib
import re
import uuid
from datetime import datetime
from pathlib import Path

import ahocorasick_rs
from django.db import transaction

from dashboard.database import clock
from dashboard.keys import keyring, redaction
from dashboard.keys.secret_forms import encoded_forms
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces.models import Environment, HandedSecret, Scope, Secret, SecretFinding, Workspace
from workspaces.secrets import origins
from workspaces.shim.record import Handed

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
# Reserved variables: programs need them, or change their behaviour with them.
RESERVED = re.compile(
    r"(HANDRAIL_|LD_|GLIBC_).*|PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|PWD|IFS|ENV|BASH_ENV|LC_.*|"
    r"(HTTPS?|ALL|NO)_PROXY",
    re.IGNORECASE,
)
VALUE_BYTES = 16 * 1024  # an eighth of the kernel's limit for a variable; a search in pieces finds values up to this
PACKAGES = str(Path(ahocorasick_rs.__file__).parents[1])  # where a shim finds the package that redacts output
SET, EXPIRED, MISSING, UNREADABLE = "set", "expired", "missing", "unreadable"
SCOPES = {"setup": Scope.SETUP, "agent": Scope.AGENT}


# Setting and deleting -------------------------------------------------------------------------------------------------


def save(
    team: Team, name: str, scope: str, value: str, *, origin="", host_key="", expires_at=None, by: Actor, replace=False
) -> Secret:
    """Set a secret, or with `replace` a new value for it. Problem 422 for invalid input, 409 if it exists already.

    `origin`: where a credential for repositories is used, and nowhere else; "" keeps the one that is set, and its
    `host_key`, which an ssh key needs.
    """
    check_name(name)
    origin = origins.check(scope, origin)
    value = value.replace("\r\n", "\n")  # browsers end lines with CR LF
    _check_value(value)
    _check_expiry(expires_at)
    with keyring.steady() as ring, transaction.atomic():
        Team.objects.take_turn(team.pk)
        secret = Secret.objects.filter(team=team, name=name, scope=scope).first()
        if secret and not replace:
            raise conflict(f"{name} already exists for this phase; replace its value on its own page.")
        verb = "secret.replaced" if secret else "secret.set"
        secret = secret or Secret(team=team, name=name, scope=scope)
        if origin and origin != secret.origin:
            secret.origin, secret.host_key, secret.public_key, secret.code_host = origin, "", "", ""
        value = origins.fit(secret, value, host_key or secret.host_key)
        secret.value, secret.version = ring.encrypt(value.encode(), associated_data(secret)), uuid.uuid4()
        secret.expires_at, secret.set_at, secret.set_by = expires_at, clock.now(), by.as_json
        secret.save()
        Event.objects.record(team, actor=by, verb=verb, subject=secret, data=_data(secret))
    return secret


def change_expiry(secret: Secret, expires_at: datetime | None, *, by: Actor):
    """Set the expiry, or remove it with None. Problem 422 for a time in the past."""
    _check_expiry(expires_at)
    with Team.objects.turn(secret.team_id):
        if Secret.objects.filter(pk=secret.pk).exclude(expires_at=expires_at).update(expires_at=expires_at):
            secret.expires_at = expires_at
            data = _data(secret)
            Event.objects.record(secret.team_id, actor=by, verb="secret.expiry_changed", subject=secret, data=data)


def change_host_key(secret: Secret, host_key: str, *, by: Actor):
    """Pin other keys of the ssh host that the secret is for. Problem 422 for a text without one."""
    if not origins.is_ssh(secret.origin):
        raise invalid("Only an ssh key has a host key.", field="host_key")
    pinned = origins.pinned(host_key)
    with Team.objects.turn(secret.team_id):
        if Secret.objects.filter(pk=secret.pk).exclude(host_key=pinned).update(host_key=pinned):
            secret.host_key = pinned
            data = _data(secret)
            Event.objects.record(secret.team_id, actor=by, verb="secret.host_key_changed", subject=secret, data=data)


def state_code_host(secret: Secret, code_host: str, *, by: Actor):
    """State which API the host of a token has, "" to have it asked. Problem 422 for another secret."""
    origins.check_code_host(secret.scope, secret.origin, code_host)
    with Team.objects.turn(secret.team_id):
        if Secret.objects.filter(pk=secret.pk).exclude(code_host=code_host).update(code_host=code_host):
            secret.code_host = code_host
            data = _data(secret) | {"code_host": code_host}
            Event.objects.record(secret.team_id, actor=by, verb="secret.code_host_stated", subject=secret, data=data)


def delete(secret: Secret, *, by: Actor):
    """Delete a secret: new programs no longer get it. Workspaces that had it are searched for its value as before."""
    with Team.objects.turn(secret.team_id):
        if Secret.objects.filter(pk=secret.pk).delete()[0]:
            data = {"name": secret.name, "scope": secret.scope}
            Event.objects.record(secret.team_id, actor=by, verb="secret.deleted", subject=secret, data=data)


def check_name(name: str, what: str = "secret") -> str:
    """Return a valid name of a variable. Problem 422 for an invalid or reserved one, which calls it `what`."""
    if not NAME.fullmatch(name):
        raise invalid(
            f"{name[:80]!r} is not a valid {what} name: use letters, digits and _, not starting with a digit."
        )
    if RESERVED.fullmatch(name):
        raise invalid(f"{name} is reserved for programs; use another name.")
    return name


def _check_value(value: str):
    if not value:
        raise invalid("The value is empty.")
    if "\0" in value:
        raise invalid("A value can't contain NUL.")
    if len(value.encode("utf-8", "surrogatepass")) > VALUE_BYTES:
        raise invalid(f"A value can have at most {VALUE_BYTES:,} bytes.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid("A value is text.") from None


def _check_expiry(expires_at):
    if expires_at is not None and expires_at <= clock.now():
        raise invalid("The expiry must be in the future.")


def associated_data(secret: Secret) -> str:
    return f"secret {secret.pk} {secret.team_id} {secret.scope} {secret.name}"


def handed_associated_data(handed: HandedSecret) -> str:
    return f"handed {handed.pk} {handed.workspace_id} {handed.name}"


def _data(secret: Secret) -> dict:
    expires = secret.expires_at.isoformat(timespec="seconds") if secret.expires_at else None
    return {"name": secret.name, "scope": secret.scope, "expires_at": expires} | origins.public_facts(secret)


# Handing to programs --------------------------------------------------------------------------------------------------


def for_phase(workspace: Workspace, phase: str) -> dict[str, str]:
    """Return {variable: value} for the programs of a phase, "setup" or "agent". Only the runner calls this.

    Expired, missing and unreadable secrets are left out; `problems` names them. Each returned value is recorded,
    encrypted, as handed to this workspace before any program has it.
    """
    found = {}
    names = _names(workspace.environment, phase)
    if names:
        with keyring.steady() as ring, transaction.atomic():
            Team.objects.take_turn(workspace.team_id)
            now = clock.now()
            for secret in Secret.objects.filter(team=workspace.team_id, scope=SCOPES[phase], name__in=names):
                if secret.expires_at is None or secret.expires_at > now:
                    try:
                        value = ring.decrypt(secret.value, associated_data(secret))
                    except keyring.Unreadable:
                        continue
                    _record_handed(workspace, secret, value, ring)
                    _note_use(secret, now)
                    found[secret.name] = value.decode()
    redaction.hide(found)
    return found


def for_code_host(team: Team, name: str) -> str:
    """Return the team's token for a code host, "" if none is set that is in force. Only runner and queue call this."""
    return _for_handrail(team, name, Scope.CODE_HOST)


def for_models(team_id, name: str) -> str:
    """Return the team's key for a provider of models, "" if none is set that is in force. For the model relay."""
    return _for_handrail(team_id, name, Scope.MODELS)


def for_signing(team) -> str:
    """Return the team's signing key, "" if none is set that is in force."""
    secret = origins.signing_key_of(team)
    return _for_handrail(team, secret.name, Scope.SIGNING) if secret else ""


def _for_handrail(team, name: str, scope: Scope) -> str:
    """Return a value that no program of a workspace is given, so that nothing is recorded as handed."""
    secret = Secret.objects.filter(team=team, scope=scope, name=name).first()
    if secret is None or state(secret) != SET:
        return ""
    value = keyring.load().decrypt(secret.value, associated_data(secret)).decode()
    _note_use(secret, clock.now())
    redaction.hide({name: value})
    return value


def handed_to_program(workspace: Workspace, phase: str | None, more: dict[str, str]) -> Handed:
    """Return what a shim gets: the variables of the phase (None: no phase) and of `more`, and all values to redact."""
    env = (for_phase(workspace, phase) if phase else {}) | more
    redaction.hide(more)
    hidden = dict.fromkeys([*env.items(), *handed_to(workspace)])
    return Handed(env, tuple(hidden), PACKAGES)


def handed_to(workspace: Workspace) -> list[tuple[str, str]]:
    """Return (name, value) of all secrets that programs of this workspace were ever given."""
    return [(handed.name, value) for handed, value in handed_rows(workspace) if value is not None]


def without_values(workspace: Workspace, text: str) -> str:
    """Return the text without the values that programs of this workspace were ever given.

    For what an agent reports about its own programs; the shim redacts the output of ours.
    """
    for name, value in handed_to(workspace):
        for form in encoded_forms(value.encode()):
            text = text.replace(form.decode("utf-8", "surrogateescape"), f"[secret {name}]")
    return text


def of_team(team_id) -> list[tuple[str, str | None]]:
    """Return (name, value) of the team's secrets, to search texts for; None for a value that no key can decrypt."""
    rows = list(Secret.objects.filter(team=team_id).order_by("pk"))
    ring = keyring.load() if rows else None
    found = []
    for secret in rows:
        try:
            value = ring.decrypt(secret.value, associated_data(secret)).decode()
            redaction.hide({secret.name: value})
        except keyring.Unreadable:
            value = None
        found.append((secret.name, value))
    return found


def handed_rows(workspace: Workspace) -> list[tuple[HandedSecret, str | None]]:
    """Return the handed secrets with their values; None for a value that no key of the ring can decrypt."""
    rows = list(HandedSecret.objects.filter(workspace=workspace).order_by("handed_at", "pk"))
    ring = keyring.load() if rows else None
    found = []
    for handed in rows:
        try:
            value = ring.decrypt(handed.value, handed_associated_data(handed)).decode()
            redaction.hide({handed.name: value})
        except keyring.Unreadable:
            value = None
        found.append((handed, value))
    return found


def search_for(workspace: Workspace, name: str, phase: str, value: str):
    """Search what this workspace's programs write for a value that is not a Secret, from now on."""
    with keyring.steady() as ring, transaction.atomic():
        Workspace.objects.locked().get(pk=workspace.pk)
        if (name, value) not in handed_to(workspace):
            secret = Secret(team_id=workspace.team_id, name=name, scope=SCOPES[phase])
            _record_handed(workspace, secret, value.encode(), ring)


def copy_to_fork(origin: Workspace, fork: Workspace):
    """Record that programs of a fork have the values that those of its origin were given."""
    with keyring.steady() as ring, transaction.atomic():
        Workspace.objects.locked().get(pk=fork.pk)
        for handed, value in handed_rows(origin):
            if value is not None:
                secret = Secret(team_id=fork.team_id, name=handed.name, scope=handed.scope, version=handed.version)
                _record_handed(fork, secret, value.encode(), ring)


def stop_searching_for(workspace_id, name: str):
    """Stop searching for the values remembered under this name, which are no longer valid."""
    HandedSecret.objects.filter(workspace=workspace_id, name=name).delete()


def _record_handed(workspace, secret: Secret, value: bytes, ring: keyring.Ring):
    if HandedSecret.objects.filter(workspace=workspace, version=secret.version).exists():
        return
    handed = HandedSecret(workspace=workspace, name=secret.name, scope=secret.scope, version=secret.version)
    handed.value, handed.handed_at = ring.encrypt(value, handed_associated_data(handed)), clock.now()
    # Two programs that start at the same moment both get it; only one row is kept.
    HandedSecret.objects.bulk_create([handed], ignore_conflicts=True)


def _note_use(secret: Secret, at: datetime):
    Secret.objects.filter(pk=secret.pk).update(last_used_at=at)


def encrypt(text: str, about: str) -> bytes:
    """Encrypt a value for another model's row. Save it inside `with keyring.steady()`; see `encrypted_columns`."""
    return keyring.load().encrypt(text.encode(), about)


def decrypt(data: bytes, about: str) -> str:
    return keyring.load().decrypt(data, about).decode()


# State of an environment's secrets ------------------------------------------------------------------------------------


def _names(environment: Environment, phase: str) -> list[str]:
    return list(environment.secrets.get(phase, []))


def statuses(environment: Environment) -> list[tuple[str, str, str]]:
    """Return (phase, name, state) of each secret that the environment names: SET, EXPIRED, MISSING or UNREADABLE."""
    now, known = clock.now(), {}
    if environment.secrets:
        for secret in Secret.objects.filter(team=environment.team_id):
            known[secret.scope, secret.name] = state(secret, now)
    names = [(phase, name) for phase in SCOPES for name in _names(environment, phase)]
    return [(phase, name, known.get((SCOPES[phase], name), MISSING)) for phase, name in names]


def has_expired(secret: Secret, now=None) -> bool:
    return secret.expires_at is not None and secret.expires_at <= (now or clock.now())


def state(secret: Secret, now=None) -> str:
    """Return SET, EXPIRED or UNREADABLE."""
    if has_expired(secret, now):
        return EXPIRED
    try:
        keyring.load().decrypt(secret.value, associated_data(secret))
    except keyring.Unreadable:
        return UNREADABLE
    return SET


def problems(environment: Environment, phase: str) -> str:
    """Return a message about the secrets that this phase needs and does not get; "" when it gets all."""
    words = {
        EXPIRED: "the secret {} has expired",
        MISSING: "there is no secret {} for this phase",
        UNREADABLE: "the secret {} can't be decrypted with this host's keys",
    }
    found = [words[how].format(name) for of, name, how in statuses(environment) if of == phase and how != SET]
    return ", and ".join(found)


# Findings -------------------------------------------------------------------------------------------------------------


def open_findings(workspace: Workspace):
    """Return the findings that nobody has allowed: files in which a snapshot would keep a secret's value."""
    return SecretFinding.objects.filter(workspace=workspace, kept_at=None).select_related("handed").order_by("path")


def allow_findings(workspace: Workspace, ids: list[uuid.UUID], *, by: Actor) -> list[SecretFinding]:
    """Record a person's decision that snapshots may keep these values in these files."""
    with Team.objects.turn(workspace.team_id):
        found = list(open_findings(workspace).filter(pk__in=ids))
        SecretFinding.objects.filter(pk__in=[finding.pk for finding in found], kept_at=None).update(
            kept_at=clock.now(), kept_by=by.as_json
        )
        for finding in found:
            data = {"path": finding.path, "name": finding.handed.name}
            Event.objects.record(
                workspace.team_id, actor=by, verb="secret.kept", subject=finding, workspace=workspace, data=data
            )
    return found


def path_hash(path: bytes) -> str:
    return hashlib.sha256(path).hexdigest()
