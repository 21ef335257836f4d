"""Credentials with a leash: set by people, never in a workspace; its programs have a stand-in of the same shape."""

import re
import string

from django.db import transaction
from django.utils.crypto import salted_hmac

from dashboard.database import clock
from dashboard.keys import keyring, redaction
from dashboard.models import Actor, Event, Team
from dashboard.problems import invalid, not_found
from workspaces.egress.leash import MAX_HOSTS, BadLeash, HostLeash, Leashed, read_header, read_host
from workspaces.models import Credential, Environment, Workspace
from workspaces.secrets import check_name

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
VALUE = re.compile(r"[!-~]{12,4096}")  # what a header can hold; shorter ones could not be told from other text
PREFIX = re.compile(r"(?:[A-Za-z][A-Za-z0-9]{0,11}[_-]){1,3}")
ALPHABETS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
MAX_ENVIRONMENTS = 50


def save(team: Team, name: str, wish: dict, *, by: Actor) -> Credential:
    """Set or replace a credential by {value, hosts, header, variable, environments}; a value of None keeps the old one.

    Problem 422 for what means nothing, 404 for no value where none is set.
    """
    checked = _checked(team, name, wish)
    with keyring.steady() as ring, transaction.atomic():
        Team.objects.take_turn(team.pk)
        row = Credential.objects.filter(team=team, name=name).first()
        verb = "credential.replaced" if row else "credential.set"
        if row is None and wish.get("value") is None:
            raise invalid("The value is missing.", field="value")
        row = row or Credential(team=team, name=name)
        for field, value in checked.items():
            setattr(row, field, value)
        if wish.get("value") is not None:
            row.value = ring.encrypt(wish["value"].encode(), associated_data(row))
        row.set_at, row.set_by = clock.now(), by.as_json
        row.save()
        Event.objects.record(team, actor=by, verb=verb, subject=row, data=_data(row))
    return row


def _checked(team: Team, name: str, wish: dict) -> dict:
    if not NAME.fullmatch(name):
        raise invalid("A credential's name has letters, digits, _ . and -, and begins with a letter or digit.")
    value = wish.get("value")
    if value is not None and not VALUE.fullmatch(value):
        raise invalid("A credential has 12 to 4,096 visible ASCII characters, without blanks.", field="value")
    try:
        read_header(wish["header"])
        hosts = [read_host(one) for one in wish["hosts"]]
    except BadLeash as error:
        raise invalid(str(error)) from None
    named = [(one.host, one.port) for one in hosts]
    if not 1 <= len(hosts) <= MAX_HOSTS or len(set(named)) != len(named):
        raise invalid(f"A credential names 1 to {MAX_HOSTS} hosts, each once.", field="hosts")
    wanted = list(dict.fromkeys(wish["environments"]))
    known = set(Environment.objects.filter(team=team, name__in=wanted).values_list("name", flat=True))
    if missing := [each for each in wanted if each not in known]:
        raise invalid(f"There is no environment {missing[0][:80]!r}.", field="environments")
    if not 1 <= len(wanted) <= MAX_ENVIRONMENTS:
        raise invalid(f"A credential names 1 to {MAX_ENVIRONMENTS} environments.", field="environments")
    variable = check_name(wish["variable"], "variable")
    for other in Credential.objects.filter(team=team, variable=variable).exclude(name=name):
        if both := sorted(set(other.environments) & set(wanted)):
            words = f"The credential {other.name} has the variable {variable} in the environment {both[0]} already."
            raise invalid(words, field="variable")
    return {
        "header": wish["header"].strip(),
        "variable": variable,
        "hosts": [_shown(one) for one in hosts],
        "environments": wanted,
    }


def _shown(one: HostLeash) -> dict:
    host = one.host if one.port == 443 else f"{one.host}:{one.port}"
    return {"host": host, "paths": list(one.paths), "methods": sorted(one.methods)}


def delete(credential: Credential, *, by: Actor):
    """Delete a credential: it is put into no request any more."""
    with Team.objects.turn(credential.team_id):
        pk = credential.pk
        if Credential.objects.filter(pk=pk).delete()[0]:
            credential.pk = pk
            data = {"name": credential.name}
            Event.objects.record(credential.team_id, actor=by, verb="credential.deleted", subject=credential, data=data)


def find(team: Team, name: str) -> Credential:
    """Return the team's credential of this name. Problem 404."""
    found = Credential.objects.filter(team=team, name=name).first()
    if found is None:
        raise not_found("credential")
    return found


def _data(row: Credential) -> dict:
    return {name: getattr(row, name) for name in ("name", "header", "variable", "hosts", "environments")}


def associated_data(row: Credential) -> str:
    return f"credential {row.pk} {row.team_id} {row.name}"


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys."""
    return Credential.objects.all(), associated_data


# For a workspace ------------------------------------------------------------------------------------------------------


def of_workspace(workspace: Workspace) -> list[Credential]:
    """Return the credentials whose stand-ins the workspace's programs have."""
    rows = Credential.objects.filter(team=workspace.team_id).order_by("name")
    return [row for row in rows if workspace.environment.name in row.environments]


def leashed(workspace: Workspace) -> list[Leashed]:
    """Return them for the proxy, with their real values. Only the runner calls this."""
    found, rows = [], of_workspace(workspace)
    ring = keyring.load() if rows else None
    for row in rows:
        try:
            value = ring.decrypt(row.value, associated_data(row)).decode()
            header, hosts = read_header(row.header)[0].lower(), tuple(map(read_host, row.hosts))
        except (keyring.Unreadable, BadLeash):  # such as a host that an earlier version took
            continue
        redaction.hide({row.name: value})
        found.append(Leashed(str(row.pk), row.name, header, stand_in(row, workspace, value), value, hosts))
    return found


def variables(workspace: Workspace) -> dict[str, str]:
    """Return {variable: stand-in} for the programs of a workspace."""
    ids = {row.name: row.variable for row in of_workspace(workspace)}
    return {ids[one.name]: one.stand_in for one in leashed(workspace)} if ids else {}


def stand_in(row: Credential, workspace: Workspace, value: str) -> str:
    """Return a text with the prefix, length and kinds of letters of the value, and nothing else of it.

    It is the same for a workspace as long as these are, also for a new value.
    """
    begun = PREFIX.match(value)
    kept = begun[0] if begun and len(begun[0]) <= len(value) // 2 else ""
    rest = value[len(kept) :]
    letters = "".join(each for each in ALPHABETS if set(each) & set(rest)) or string.ascii_lowercase
    made, block = "", 0
    while len(made) < len(rest):
        digest = salted_hmac("workspaces.stand-in", f"{row.pk} {workspace.pk} {block}", algorithm="sha512").digest()
        made += "".join(letters[byte % len(letters)] for byte in digest)
        block += 1
    return kept + "".join(new if old.isalnum() else old for old, new in zip(rest, made, strict=False))


def note_use(workspace: Workspace, used: Leashed, data: dict):
    """Record that the credential is put into a request of this workspace."""
    rows = Credential.objects.filter(pk=used.id)
    rows.update(last_used_at=clock.now())
    if (row := rows.first()) is not None:
        reason = f"{data['method']} {data['host']}{data['path']}"
        Event.objects.record(
            workspace.team_id,
            actor=Actor.system("proxy"),
            verb="credential.used",
            subject=row,
            workspace=workspace,
            data={"name": row.name, **data, "reason": reason[:500]},
        )
