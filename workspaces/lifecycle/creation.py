"""Create a workspace from a source, or fork one from a snapshot."""

import hashlib
import re

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.access import Caller
from dashboard.problems import conflict, invalid
from workspaces import operations
from workspaces.history import find_snapshot
from workspaces.lifecycle.states import record, resume, retry
from workspaces.models import KEY_PATTERN, Environment, State, Workspace, WorkspaceLabel
from workspaces.provisioning import capacity, eligibility, images, isolation, uploads
from workspaces.provisioning.sources import check_git


def create(team, key: str, *, caller: Caller, wish: dict) -> tuple[Workspace, bool]:
    """Create a workspace, or resume the one with this key; return (workspace, True if it is new).

    `wish`: {driver?, environment?, image?, source?, setup?, labels?, description?, fresh?} as in the API. Problem 409
    names what differs from the existing workspace, or until when a deleted one is in the trash; Problem 410 says when
    one was deleted for good. `fresh` ignores both deleted ones.
    """
    operations.refuse_when_stopped(team.pk)
    source = check_source(team, wish.get("source"))
    with transaction.atomic():
        type(team).objects.select_for_update().get(pk=team.pk)
        known = Workspace.objects.kept().select_related("environment").filter(team=team, key=key).first()
        if known is None:
            return _create_new(team, key, caller, wish, source), True
    if not Workspace.objects.visible_to(caller).filter(pk=known.pk).exists():
        raise conflict("This key is already used in your team, by a workspace that isn't yours.")
    _refuse_differences(known, wish, source)
    if known.state in (State.PAUSED, State.STOPPED):
        resume(known, by=caller.actor)
    elif known.state == State.FAILED:
        retry(known, by=caller.actor)
    return known, False


def check_source(team, source) -> dict:
    """Return the requested source as {git, ref}, {upload} or {}. Problem 422 for an invalid one."""
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


def check_key(key: str) -> str:
    """Return a valid key; Problem 422 for an invalid one."""
    if not re.fullmatch(KEY_PATTERN, key):
        raise invalid("Use lower-case letters, digits, dots and dashes; start with a letter or digit.")
    return key


def _create_new(team, key, caller, wish, source) -> Workspace:
    capacity.refuse_new()
    environment = _environment(team, wish, caller)
    source = source or eligibility.own_source(environment)
    eligibility.check(environment, source, caller)
    trashed = Workspace.objects.in_trash().filter(team=team, key=key).order_by("-trashed_at").first()
    if trashed and not wish.get("fresh"):
        raise conflict(
            f"{key} is in the trash until {clock.in_utc(trashed.purge_at)}. Restore it, or start empty.",
            in_trash_until=trashed.purge_at.isoformat(),
        )
    if not wish.get("fresh"):
        Workspace.objects.filter(team=team, key=key).refuse_if_purged()
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
    operations.submit("create", workspace=workspace, by=caller.actor, exclusive=True)
    return workspace


def _next_uid() -> int:
    """Return a host uid that no other workspace has, so that its programs never own another workspace's files."""
    highest = Workspace.objects.exclude(uid=None).order_by("-uid").values_list("uid", flat=True).first()
    return max(highest or 0, settings.HANDRAIL_FIRST_UID) + 1


def _environment(team, wish, caller: Caller) -> Environment:
    """Return the newest version of the named environment; without a name the default, or one made for this request."""
    name, driver, setup = wish.get("environment"), wish.get("driver"), wish.get("setup") or ""
    image = wish.get("image") or ""
    if name:
        found = eligibility.find_environment(team, name, caller)
        if driver and driver != found.driver:
            raise invalid(f"The environment {name!r} uses the driver {found.driver}, not {driver}.")
        if setup:
            raise invalid("The environment has its own setup script.")
        if image and image != found.image:
            raise invalid(f"The environment {name!r} has its own image.")
        return found
    driver = driver or ("docker" if image else "sandbox")
    if image and driver != "docker":
        raise invalid(f"The driver {driver} takes no image.")
    images.check(image)
    if driver not in isolation.available():
        here = f"There are: {', '.join(isolation.available())}."
        if driver in isolation.ISOLATION and driver != "folder":
            raise invalid(f"The driver {driver} isn't available. {isolation.why_not(driver)} {here}")
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
    """Problem 409 when driver, environment, image, setup or source differ from the workspace that has the key."""
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
            f"{workspace.key} already exists with a different {' and '.join(differ)}.",
            differs={name: {"is": was, "asked": wished} for name, (was, wished) in differ.items()},
        )


def fork(workspace, key: str, *, caller: Caller, number: int | None = None) -> Workspace:
    """Create a workspace with the environment and the files of a snapshot, by default the newest."""
    found = find_snapshot(workspace, number) if number else workspace.head
    if found is None:
        raise conflict(f"{workspace.key} has no snapshot to fork from.")
    if workspace.missing_snapshot and not number:
        raise conflict(f"{workspace.key} has no snapshot of its last state yet, so its newest one is out of date.")
    eligibility.check(workspace.environment, workspace.source, caller)
    capacity.refuse_new()
    with transaction.atomic():
        type(workspace.team).objects.select_for_update().get(pk=workspace.team_id)
        if Workspace.objects.kept().filter(team=workspace.team_id, key=key).exists():
            raise conflict(f"The key {key} is already used.")
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
        operations.submit("create", workspace=made, by=caller.actor, exclusive=True)
    return made
