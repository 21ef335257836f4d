"""Purge a person: the account keeps its number, under which decisions and the log stay verifiable, and nothing else.

Which rows go follows from their column that names the account: what would be deleted with the account is the person's
own and is deleted; what would keep the account from being deleted (decisions, messages) stays, and so does the account.
"""

import json
import re
from collections.abc import Iterator

from django.contrib.auth import get_user_model
from django.db import connection, models, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Cast
from django.utils.crypto import salted_hmac

from dashboard.database import clock
from dashboard.database.batches import in_batches
from dashboard.database.row_locks import locked
from dashboard.models import Actor, Event, Team, Token
from dashboard.people import members, provisioning, sessions
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed
from workspaces import extensions
from workspaces.models import PurgeReceipt
from workspaces.services.scrub import receipts, rows, rules
from workspaces.services.scrub.asking import MAX_REASON
from workspaces.services.scrub.places import ROW, Place
from workspaces.services.scrub.purging import Purged, overwrite_deleted

# Rows that would go with the account, and stay: {label of a model: why}.
STAY = {
    "admin.logentry": "it is the record of what was changed in the Django admin",
    "approvals.passkeychallenge": "a passkey signed it, for a decision",
    "dashboard.token": "it is revoked, only its hash is kept, and the log names it by its prefix",
}
RELEASED = ("owner", "break_glass")  # columns that give somebody a task; they become empty
NOT_TOUCHED = (
    "what the person wrote or is named in: comments, messages, prompts, notes, files and outputs. "
    "Find and purge a value takes a name or an address out of these",
    "backups and copies of the database",
    "what was sent elsewhere: notifications, log targets, pull requests, the identity provider",
)


def name_after(user) -> str:
    """Return what the account is called from now on."""
    return f"deleted-person-{user.pk}"


def is_purged(user) -> bool:
    return user.username == name_after(user)


def teams_of(user) -> QuerySet:
    """Return the teams that the person is in, or did something in that the log has."""
    acted = Event.objects.filter(actor_type="person", actor_id=str(user.pk)).values("team")
    return Team.objects.filter(Q(memberships__user=user) | Q(pk__in=acted)).distinct().order_by("slug")


def refuse(user, caller: Caller):
    """Raise Problem 403 unless the caller may purge this person, 409 for oneself and for an operator."""
    if any(not caller.can("purge_person", team) for team in teams_of(user)):
        raise not_allowed(
            f"{user} is or was also in a team that you don't manage. An operator can run manage.py purge_person."
        )
    if caller.user.pk == user.pk:
        raise conflict("Another admin can purge your account, not you.")
    if user.is_staff or user.is_superuser:
        raise conflict(f"{user} is an operator. Only manage.py purge_person can purge the account.")


def purge(user, *, reason: str, by: Actor) -> list[PurgeReceipt]:
    """Remove a person from the whole installation, and return a receipt for each of the person's teams.

    Problem 422 without a reason, 409 for the only admin of a team and for somebody who was purged already.
    """
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON:
        raise invalid(f"Give a reason of at most {MAX_REASON} characters.", field="reason")
    overwrite_deleted()
    with transaction.atomic():
        user = locked(get_user_model().objects.all()).get(pk=user.pk)
        if is_purged(user):
            raise conflict("This person was purged already.")
        return _purge(user, reason, by)


def _purge(user, reason: str, by: Actor) -> list[PurgeReceipt]:
    asked_at, name = clock.now(), user.username
    # pattern: the name without a repeat
    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", reason, re.IGNORECASE):
        raise invalid("The receipt keeps the reason: write one without the person's name.", field="reason")
    teams = list(teams_of(user))
    done = Purged(not_searched=list(NOT_TOUCHED))
    if connection.vendor == "sqlite":
        done.not_searched.append("the write-ahead log of the database, until it is next emptied")
    _leave(user, by)  # while the sign-in, the teams and the tokens still say whose they are
    _empty(user)
    for place in (*_own_rows(user), *_drafts(user), *_released(user), *_labels(user, name), *_bound(user)):
        done.add(place)
    return [
        receipts.write(
            team,
            done,
            about="person",
            fingerprint=fingerprint(name),
            reason=reason,
            by=by,
            asked_at=asked_at,
            more={"person": str(user.pk), "called": user.username},
        )
        for team in teams
    ]


def fingerprint(name: str) -> str:
    """Return a keyed hash of a user name, by which a receipt is recognised as that of a person."""
    return salted_hmac("handrail.scrub.person", name, algorithm="sha256").hexdigest()


def _leave(user, by: Actor):
    """End what the person can do. The name goes first, so that no event of this repeats it."""
    get_user_model().objects.filter(pk=user.pk).update(username=name_after(user))
    user.username = name_after(user)
    sessions.end_all(user, by=by)
    provisioning.revoke(Token.objects.filter(user=user), by=by)
    for membership in user.memberships.select_related("team", "user").order_by("team__slug"):
        members.remove(membership, by=by)


def _empty(user):
    user.first_name = user.last_name = user.email = ""
    user.is_active = user.is_staff = user.is_superuser = False
    user.set_unusable_password()
    user.save()
    user.groups.clear()
    user.user_permissions.clear()


def _relations(on_delete) -> Iterator[models.ForeignKey]:
    """Yield the columns that name an account and do this when it is deleted, also those without a way back."""
    for relation in get_user_model()._meta.get_fields(include_hidden=True):
        if (relation.one_to_many or relation.one_to_one) and relation.auto_created and relation.on_delete is on_delete:
            yield relation.field


def _place(model, pk, why: str = "") -> Place:
    return Place(kind=ROW, what=str(model._meta.verbose_name), name="", pk=str(pk), why_kept=why)


def _own_rows(user) -> list[Place]:
    """Delete what belongs to the account alone: passkeys, addresses, devices, channels, saved views, what was seen."""
    found = [Place(kind=ROW, what="account", name="", pk=str(user.pk))]
    for column in _relations(models.CASCADE):
        model = column.model
        own = model._base_manager.filter(**{column.name: user})
        why = STAY.get(model._meta.label_lower, "")
        found += [_place(model, pk, why) for pk in own.values_list("pk", flat=True)]
        if not why:
            own.delete()
    return found


def _drafts(user) -> list[Place]:
    """Delete what the person wrote and sent to nobody."""
    drafts = extensions.ports.unsent_of(user)
    found = [_place(drafts.model, pk) for pk in drafts.values_list("pk", flat=True)]
    drafts.delete()
    return found


def _released(user) -> list[Place]:
    found = []
    for column in _relations(models.SET_NULL):
        if column.name in RELEASED:
            theirs = column.model._base_manager.filter(**{column.name: user})
            found += [_place(column.model, pk) for pk in theirs.values_list("pk", flat=True)]
            theirs.update(**{column.name: None})
    return found


def _labels(user, name: str) -> Iterator[Place]:
    """Write the new name where rows keep a copy of who did something, and yield those rows."""
    for part in rows.parts():
        for column in part.columns:
            if not isinstance(part.model._meta.get_field(column), models.JSONField):
                continue
            why = rules.of(part.model).why_kept(column)
            for pk, value in _naming(part.model, column, user, name):
                changed = _renamed(value, user, name)
                if changed == value:
                    continue
                if not why:
                    models.QuerySet.update(part.model._base_manager.filter(pk=pk), **{column: changed})
                yield _place(part.model, pk, why)


def _naming(model, column: str, user, name: str) -> Iterator[tuple[object, object]]:
    """Yield (primary key, value) of the rows whose JSON may name the person as an actor or approver."""
    escaped = json.dumps(name)[1:-1]  # SQLite keeps JSON in ASCII
    told = Q(as_text__contains=f'"{user.pk}"') | Q(as_text__contains=name) | Q(as_text__contains=escaped)
    found = model._base_manager.annotate(as_text=Cast(column, models.TextField())).filter(told)
    return in_batches(found.values_list("pk", column))


def _renamed(value, user, name: str):
    """Return the JSON with the new name wherever the person is the actor, or one of those who approved."""
    if isinstance(value, list):
        return [_renamed(each, user, name) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _renamed(each, user, name) for key, each in value.items()}
    if found.get("type") == "person" and found.get("id") == str(user.pk) and "label" in found:
        found["label"] = user.username
    if isinstance(found.get("approved_by"), str):
        people = found["approved_by"].split(", ")
        found["approved_by"] = ", ".join(user.username if each == name else each for each in people)
    return found


def _bound(user) -> Iterator[Place]:
    """Yield what names the account and stays: the log, and what would keep the account from being deleted."""
    events = Event.objects.filter(actor_type="person", actor_id=str(user.pk)).values_list("pk", flat=True)
    for pk in in_batches(events):
        yield _place(Event, pk, "the hash chain of the log binds each event, with the name of its time")
    for column in _relations(models.PROTECT):
        for pk in column.model._base_manager.filter(**{column.name: user}).values_list("pk", flat=True):
            yield _place(column.model, pk, f"it names the account, which is now called {user.username}")
