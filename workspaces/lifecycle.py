"""What moves a workspace: create, resume, pause, stop, snapshot, restore, fork, delete.

Each function checks whether the move is possible now and asks the runner for it by an Effect; the runner's kinds
(workspaces/runner/kinds) carry it out and change the state. A move that is under way already is joined, not doubled.
"""

import hashlib
import re
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.access import Caller
from dashboard.models import Actor, Event
from dashboard.problems import conflict, invalid, not_allowed, unavailable
from workspaces import capacity, effects, images, isolation, uploads
from workspaces.activity import touch
from workspaces.history import find_snapshot
from workspaces.models import (
    KEY_PATTERN,
    Effect,
    Environment,
    Snapshot,
    State,
    Workspace,
    WorkspaceLabel,
)
from workspaces.sources import check_git

KINDS = "workspaces.runner.kinds"
SAVED_WITHIN = 60.0  # seconds
STATE_WORDS = {
    State.CREATING: "is being made",
    State.SETTING_UP: "is getting ready",
    State.READY: "is ready",
    State.PAUSED: "is asleep",
    State.STOPPED: "is stopped",
    State.FAILED: "is broken",
}


# Create --------------------------------------------------------------------------------------------------------------


def create(team, key: str, *, caller: Caller, wish: dict) -> tuple[Workspace, bool]:
    """A new workspace, or the one that has this key, resumed; True when it is new.

    `wish`: {driver?, environment?, source?, setup?, labels?, description?, fresh?} as on the API. Problem 409 names
    what differs from the workspace that has the key, or until when a deleted one is in the trash.
    """
    if team.stopped_at:
        raise conflict("Everything is stopped in this team; a person has to lift that first.")
    source = _checked_source(team, wish.get("source"))
    with transaction.atomic():
        type(team).objects.select_for_update().get(pk=team.pk)
        known = Workspace.objects.kept().select_related("environment").filter(team=team, key=key).first()
        if known is None:
            return _create_new(team, key, caller, wish, source), True
    if not Workspace.objects.visible_to(caller).filter(pk=known.pk).exists():
        raise conflict("This key is taken in your team, by a workspace that is not yours.")
    _refuse_differences(known, wish, source)
    if known.state in (State.PAUSED, State.STOPPED):
        resume(known, by=caller.actor)
    elif known.state == State.FAILED:
        retry(known, by=caller.actor)
    return known, False


def _checked_source(team, source) -> dict:
    if not source:
        return {}
    if len({"git", "upload"} & set(source)) != 1 or ("ref" in source and "git" not in source):
        raise invalid("A source is {git, ref?}, {upload} or nothing.")
    if "git" in source:
        ref = source.get("ref") or ""
        check_git(source["git"], ref)
        return {"git": source["git"], "ref": ref}
    uploads.find(team.pk, source["upload"])
    return {"upload": source["upload"]}


def _create_new(team, key, caller, wish, source) -> Workspace:
    capacity.refuse_new()
    environment = _environment(team, wish)
    if not source and environment.repository:
        source = {"git": environment.repository, "ref": environment.ref}
    trashed = Workspace.objects.in_trash().filter(team=team, key=key).order_by("-trashed_at").first()
    if trashed and not wish.get("fresh"):
        raise conflict(
            f"{key} was deleted. It is in the trash until {trashed.purge_at:%-d %b %Y}. Bring it back, or start empty.",
            in_trash_until=trashed.purge_at.isoformat(),
        )
    workspace = Workspace.objects.create(
        team=team,
        key=key,
        description=wish.get("description") or "",
        environment=environment,
        source=source,
        labels=wish.get("labels") or {},
        uid=_next_uid(),
        created_by_agent=caller.agent,
        created_by_user=caller.user,
        last_active_at=clock.now(),
    )
    WorkspaceLabel.objects.bulk_create(
        WorkspaceLabel(workspace=workspace, name=name, value=value) for name, value in workspace.labels.items()
    )
    data = {"key": key, "driver": environment.driver, "environment": environment.name, "source": source}
    capacity.refuse_when_promised(workspace)
    record(workspace, caller.actor, "workspace.created", data)
    effects.submit(f"{KINDS}.create", workspace=workspace, by=caller.actor, exclusive=True)
    return workspace


def _next_uid() -> int:
    """A host uid that no other workspace has, so that one's programs never own another's files."""
    highest = Workspace.objects.exclude(uid=None).order_by("-uid").values_list("uid", flat=True).first()
    return max(highest or 0, 200_000) + 1


def _environment(team, wish) -> Environment:
    """The newest version of the named environment; without a name the default, or one made for this wish."""
    name, driver, setup = wish.get("environment"), wish.get("driver"), wish.get("setup") or ""
    image = wish.get("image") or ""
    if name:
        found = Environment.objects.filter(team=team, name=name).order_by("-version").first()
        if found is None:
            raise invalid(f"There is no environment named {name!r}.")
        if driver and driver != found.driver:
            raise invalid(f"The environment {name!r} uses the driver {found.driver}, not {driver}.")
        if setup:
            raise invalid("The environment brings its own set-up script.")
        if image and image != found.image:
            raise invalid(f"The environment {name!r} brings its own image.")
        return found
    driver = driver or ("docker" if image else "sandbox")
    if image and driver != "docker":
        raise invalid(f"A workspace of the driver {driver} has no image.")
    images.check(image)
    if driver not in isolation.available():
        here = f"There are: {', '.join(isolation.available())}."
        if driver in isolation.ISOLATION and driver != "folder":
            raise invalid(f"The driver {driver} cannot be used now. {isolation.why_not(driver)} {here}")
        raise invalid(f"There is no driver {driver!r} here. {here}")
    name = "default" if (driver, setup) == ("sandbox", "") else _name_of(driver, setup, image)
    if name == "default" and (found := Environment.objects.filter(team=team, name=name).order_by("-version").first()):
        return found
    return Environment.objects.get_or_create(
        team=team,
        name=name,
        version=1,
        defaults={
            "driver": driver,
            "setup": setup,
            "image": image,
            "minimum_isolation": isolation.offered(driver),
        },
    )[0]


def _name_of(driver, setup, image) -> str:
    made_of = f"{image}\0{setup}" if image else setup
    return f"{driver}-{hashlib.sha256(made_of.encode()).hexdigest()[:10]}" if made_of else driver


def _refuse_differences(workspace, wish, source):
    """Never replace silently: another driver, environment, set-up or source under the same key is a conflict."""
    environment = workspace.environment
    differ = {}
    if (wished := wish.get("driver")) and wished != environment.driver:
        differ["driver"] = [environment.driver, wished]
    if (wished := wish.get("environment")) and wished != environment.name:
        differ["environment"] = [environment.name, wished]
    if (wished := wish.get("image")) and wished != environment.image:
        differ["image"] = [environment.image, wished]
    if (wished := wish.get("setup")) and wished != environment.setup:
        differ["setup"] = [environment.setup, wished]
    if source and source != {name: workspace.source.get(name, "") for name in source}:
        differ["source"] = [workspace.source, source]
    if differ:
        raise conflict(
            f"{workspace.key} exists with another {' and '.join(differ)}.",
            differs={name: {"is": was, "asked": wished} for name, (was, wished) in differ.items()},
        )


# States --------------------------------------------------------------------------------------------------------------


def record(workspace, by: Actor, verb: str, data=None, subject=None) -> Event:
    return Event.objects.record(
        workspace.team_id, actor=by, verb=verb, subject=subject or workspace, workspace=workspace, data=data
    )


def join(workspace, kind: str, *, by: Actor, args=None) -> Effect:
    """Ask for an exclusive move; one of the same kind that is not over yet is the answer to both."""
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        under_way = Effect.objects.open().filter(workspace=workspace, kind=f"{KINDS}.{kind}").first()
        if under_way is None and kind in ("create", "resume"):
            capacity.refuse_when_promised(workspace)
        return under_way or effects.submit(f"{KINDS}.{kind}", workspace=workspace, by=by, args=args, exclusive=True)


def must_be(workspace, *states, what: str):
    """Problem 409 in words unless the workspace is kept, in one of these states, and its team not stopped."""
    workspace.refresh_from_db(fields=["state", "reason", "trashed_at", "purge_at"])
    if workspace.trashed_at:
        raise conflict(
            f"{workspace.key} is in the trash until {workspace.purge_at:%-d %b %Y}.",
            in_trash_until=workspace.purge_at.isoformat(),
        )
    if workspace.state not in states:
        because = f": {workspace.reason}" if workspace.reason else "."
        raise conflict(
            f"{workspace.key} {STATE_WORDS[workspace.state]}, so it cannot be {what} now{because}",
            state=workspace.state,
        )


def resume(workspace, *, by: Actor) -> Effect | None:
    """Bring it up; None when it is up already."""
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="resumed")
    if workspace.team.stopped_at:
        raise conflict("Everything is stopped in this team; a person has to lift that first.")
    if workspace.state == State.READY and not _ending(workspace):
        return None
    touch(workspace)
    return join(workspace, "resume", by=by)


def _ending(workspace) -> bool:
    kinds = [f"{KINDS}.{name}" for name in ("pause", "stop", "ended")]
    return Effect.objects.open().filter(workspace=workspace, kind__in=kinds).exists()


def pause(workspace, *, by: Actor, unless_used_since: datetime | None = None) -> Effect | None:
    """Files are kept, programs end, and use wakes it; None when it is asleep already.

    `unless_used_since`: activity after this moment, when its turn has come, leaves it up.
    """
    must_be(workspace, State.READY, State.PAUSED, what="paused")
    if workspace.state == State.PAUSED:
        return None
    args = {"unless_used_since": unless_used_since.isoformat()} if unless_used_since else None
    return join(workspace, "pause", by=by, args=args)


def stop(workspace, *, by: Actor) -> Effect | None:
    """Like pause, but only a request wakes it."""
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="stopped")
    return None if workspace.state == State.STOPPED else join(workspace, "stop", by=by)


def retry(workspace, *, by: Actor) -> Effect:
    """Make a broken one again from its source; nothing of a half-made tree is kept."""
    must_be(workspace, State.FAILED, what="tried again")
    with transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk, state=State.FAILED).update(state=State.CREATING, reason="")
        record(workspace, by, "workspace.retried")
        return join(workspace, "create", by=by)


def wake(workspace, *, by: Actor):
    """For use: a sleeping one is resumed, a stopped one is not."""
    must_be(workspace, State.READY, State.PAUSED, what="used")
    if workspace.state == State.PAUSED or _ending(workspace):
        join(workspace, "resume", by=by)
    touch(workspace)


# Snapshots -----------------------------------------------------------------------------------------------------------


def snapshot(workspace, *, by: Actor, kind: str = "manual", label: str = "") -> Effect:
    """A point in time; outcome {"ok": True, "snapshot": number}."""
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="snapshotted")
    if len(label) > 120:
        raise invalid("A label has at most 120 characters.")
    touch(workspace)
    return effects.submit(
        f"{KINDS}.snapshot", workspace=workspace, by=by, args={"kind": kind, "label": label}, exclusive=True
    )


def save_first(workspace, *, by: Actor, label: str):
    """A safety snapshot that is there when this returns; Problem 503 when it could not be taken."""
    effect = effects.wait(snapshot(workspace, by=by, kind="safety", label=label), SAVED_WITHIN)
    if not effects.is_over(effect) or not effect.outcome["ok"]:
        raise unavailable("What is there now could not be saved first, so nothing was changed.")


def pin(snapshot: Snapshot, pinned: bool, *, by: Actor):
    """Keep a snapshot whatever retention says, or no longer."""
    with transaction.atomic():
        if Snapshot.objects.filter(pk=snapshot.pk, pinned=not pinned).update(pinned=pinned):
            verb = "snapshot.pinned" if pinned else "snapshot.unpinned"
            record(snapshot.workspace, by, verb, {"number": snapshot.number}, subject=snapshot)
    snapshot.pinned = pinned


def restore(workspace, number: int, *, by: Actor, paths: list[str] | None = None, follow: dict | None = None) -> Effect:
    """Put the tree (or some paths of it) back; what is there now is saved first. `follow`: columns of the workspace
    that go back with it, such as the version of the environment.

    The effect's progress names `safety_snapshot` as soon as it is taken; the outcome holds {"ok", "safety_snapshot",
    "snapshot", "changed", "created", "removed", "entries", "differ"}.
    """
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="put back")
    target = find_snapshot(workspace, number)
    touch(workspace)
    args = {"number": target.number, "paths": paths} | ({"follow": follow} if follow else {})
    return effects.submit(f"{KINDS}.restore", workspace=workspace, by=by, args=args, exclusive=True)


CAN_BE_STOPPED = {
    f"{KINDS}.snapshot": "use_workspace",
    f"{KINDS}.restore": "restore",
    f"{KINDS}.archive": "use_workspace",
}


def right_to_stop(effect: Effect) -> str:
    """The right that asking it to stop takes; empty for what cannot be stopped half-way."""
    # Files that are fetched leave nothing behind; a set-up script that has begun is ended by its time alone.
    fetched = effect.workspace is not None and effect.workspace.source.keys() & {"git", "upload", "fork"}
    if effect.kind == f"{KINDS}.create" and fetched and effect.progress.get("step", "files") == "files":
        return "create_workspace"
    return CAN_BE_STOPPED.get(effect.kind, "")


def stop_move(workspace, effect: Effect, *, by: Actor):
    """Ask long work that is under way to stop; until a restore touches the first entry it can."""
    if not right_to_stop(effect):
        raise conflict("This cannot be stopped half-way.")
    with transaction.atomic():
        if not effects.ask_to_stop(effect):
            raise conflict("It is over, or was asked to stop already.")
        record(workspace, by, "workspace.move_stopped", {"kind": effect.kind.rpartition(".")[2]})


def reset(workspace, *, by: Actor) -> Effect:
    """Back to the snapshot after set-up; can be undone like any restore."""
    if workspace.baseline is None:
        raise conflict(f"{workspace.key} has no snapshot after set-up to go back to.")
    return restore(workspace, workspace.baseline.number, by=by)


def check_key(key: str) -> str:
    """The key, if it is one; Problem 422."""
    if not re.fullmatch(KEY_PATTERN, key):
        raise invalid("A name has small letters, digits, dots, dashes; it begins with a letter or digit.")
    return key


def fork(workspace, key: str, *, caller: Caller, number: int | None = None) -> Workspace:
    """A new workspace with the files of a snapshot (the newest by default), and nothing else of this one."""
    found = find_snapshot(workspace, number) if number else workspace.head
    if found is None:
        raise conflict(f"{workspace.key} has no snapshot to fork from.")
    if workspace.owed and not number:
        raise conflict(f"{workspace.key} owes a snapshot of how it ended, so its newest one is not what is there.")
    capacity.refuse_new()
    with transaction.atomic():
        type(workspace.team).objects.select_for_update().get(pk=workspace.team_id)
        if Workspace.objects.kept().filter(team=workspace.team_id, key=key).exists():
            raise conflict(f"The key {key} is taken.")
        made = Workspace.objects.create(
            team=workspace.team,
            key=key,
            environment=workspace.environment,
            base=workspace.base,
            runner=workspace.runner,
            source={"fork": {"workspace": workspace.key, "snapshot": found.number, "id": str(found.pk)}},
            uid=_next_uid(),
            created_by_agent=caller.agent,
            created_by_user=caller.user,
            last_active_at=clock.now(),
        )
        capacity.refuse_when_promised(made)
        record(made, caller.actor, "workspace.forked", {"key": key, "from": workspace.key, "snapshot": found.number})
        effects.submit(f"{KINDS}.create", workspace=made, by=caller.actor, exclusive=True)
    return made


# Trash ---------------------------------------------------------------------------------------------------------------


def trash(workspace, *, by: Actor) -> Effect:
    """Into the trash, with a snapshot of everything first; the files go when the date comes."""
    if workspace.trashed_at:
        raise conflict(f"{workspace.key} is in the trash already.", in_trash_until=workspace.purge_at.isoformat())
    return join(workspace, "trash", by=by)


def untrash(workspace, *, by: Actor) -> Workspace:
    """Back out of the trash, stopped. Problem 409 when the key is in use again."""
    with transaction.atomic():
        type(workspace.team).objects.select_for_update().get(pk=workspace.team_id)
        if Workspace.objects.kept().filter(team=workspace.team_id, key=workspace.key).exists():
            raise conflict(f"Another workspace has the key {workspace.key} now.")
        state = workspace.state if workspace.state == State.FAILED else State.STOPPED
        if not Workspace.objects.in_trash().filter(pk=workspace.pk).update(trashed_at=None, purge_at=None, state=state):
            raise conflict(f"{workspace.key} is not in the trash.")
        record(workspace, by, "workspace.untrashed")
    workspace.refresh_from_db()
    return workspace


def purge_date():
    return clock.now() + timedelta(days=settings.HANDRAIL_TRASH_DAYS)


def may(caller: Caller, verb: str, workspace):
    """Problem 403 unless the caller's role allows the verb; what it may not see was 404 before."""
    if not caller.can(verb, workspace.team_id):
        raise not_allowed("Your role does not allow that here.")
