"""Create a workspace from a source, or fork one from a snapshot."""

import hashlib
import re

from django.conf import settings

from dashboard.database import clock
from dashboard.door.entering import refuse_when_stopped
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid
from dashboard.text.strict_json import canonical
from workspaces import operations
from workspaces.changes.history import find_snapshot
from workspaces.drivers import capabilities
from workspaces.lifecycle import carried
from workspaces.lifecycle.boundaries import snapshot_before
from workspaces.lifecycle.states import must_not_be_trashed, record, resume, retry
from workspaces.models import KEY_PATTERN, Environment, State, Workspace, WorkspaceLabel
from workspaces.operations import absent, uploads_elsewhere
from workspaces.provisioning import capacity, caps, eligibility, images, isolation, placement, source_history
from workspaces.provisioning.git.addresses import check_git
from workspaces.secrets import team_credentials


def create(team, key: str, *, caller: Caller, wish: dict) -> tuple[Workspace, bool]:
    """Create a workspace, or resume the one with this key; return (workspace, True if it is new).

    `wish`: {driver?, environment?, image?, source?, setup?, labels?, description?, fresh?, artifacts?} as in the API.
    Problem 409 names what differs from the existing workspace, or until when a deleted one is in the trash; Problem 410
    says when one was deleted for good. `fresh` ignores both deleted ones.
    """
    refuse_when_stopped(team.pk)
    source = check_source(team, wish.get("source"))
    with type(team).objects.turn(team.pk):
        known = Workspace.objects.kept().select_related("environment").filter(team=team, key=key).first()
        if known is None:
            return create_new(team, key, caller=caller, wish=wish, source=source), True
    if not Workspace.objects.visible_to(caller).filter(pk=known.pk).exists():
        raise conflict("This key is already used in your team, by a workspace that isn't yours.")
    _refuse_differences(known, wish, source)
    if known.state in (State.PAUSED, State.STOPPED, State.ARCHIVED):
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
        team_credentials.refuse_without_key(team, check_git(source["git"], ref))
        return {"git": source["git"], "ref": ref}
    uploads_elsewhere.must_be_kept(team.pk, source["upload"])
    return {"upload": source["upload"]}


def check_key(key: str) -> str:
    """Return a valid key; Problem 422 for an invalid one."""
    if not re.fullmatch(KEY_PATTERN, key):
        raise invalid("Use lower-case letters, digits, dots and dashes; start with a letter or digit.")
    return key


def create_new(team, key: str, *, caller: Caller, wish: dict, source: dict) -> Workspace:
    """Create a workspace with a key that no other one has, in the team's turn. Problem as for `create`.

    `source` is what `check_source` returned: it may look up a host's name, so it is called before the turn.
    """
    capacity.refuse_new()
    environment = _environment(team, wish, caller)
    caps.refuse_when_met(team.pk, environment.driver, adds=True)
    source = source or eligibility.own_source(environment)
    eligibility.check(environment, source, caller)
    if wish.get("artifacts"):
        source = source | {"artifacts": carried.chosen(team, wish["artifacts"], source, caller)}
    if not wish.get("fresh"):
        absent.refuse_to_create(Workspace.objects.filter(team=team, key=key))
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
        owner=owner_of(caller, team),
        last_active_at=clock.now(),
    )
    WorkspaceLabel.objects.bulk_create(
        WorkspaceLabel(workspace=workspace, name=name, value=value) for name, value in workspace.labels.items()
    )
    data = {"key": key, "driver": environment.driver, "environment": environment.name, "source": source}
    placement.place(workspace)
    record(workspace, caller.actor, "workspace.created", data)
    operations.submit("create", workspace=workspace, by=caller.actor, exclusive=True)
    return workspace


def owner_of(caller: Caller, team):
    """Return who owns what the caller creates: the person, or whose agent it is, if they are in the team."""
    person = caller.user or (caller.agent and caller.agent.owner)
    return person if person and person.memberships.filter(team=team).exists() else None


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
    driver = driver or (capabilities.drivers_with(takes_image=True)[0] if image else capabilities.DEFAULT)
    if image and not capabilities.of(driver).takes_image:
        raise invalid(f"The driver {driver} takes no image.")
    images.check(image)
    if driver not in isolation.available():
        here = f"There are: {', '.join(isolation.available())}."
        if driver in capabilities.drivers_with(own_folder=False):
            raise invalid(f"The driver {driver} isn't available. {isolation.why_not(driver)} {here}")
        raise invalid(f"There is no driver {driver!r} here. {here}")
    name = eligibility.DEFAULT if (driver, setup) == (capabilities.DEFAULT, "") else _name_of(driver, setup, image)
    if name == eligibility.DEFAULT:
        newest = Environment.objects.filter(team=team, name=name).order_by("-version").first()
        if newest is not None:
            return newest
    made_of = {"driver": driver, "setup": setup, "image": image}
    for free in (name, _whole_name_of(made_of)):
        found = eligibility.made(team, free, made_of)
        if made_of == {field: getattr(found, field) for field in made_of}:
            return found
    raise conflict(f"The names of an environment for this setup are taken: {name}, {free}.")


def _name_of(driver, setup, image) -> str:
    made_of = f"{image}\0{setup}" if image else setup
    return f"{driver}-{hashlib.sha256(made_of.encode()).hexdigest()[:10]}" if made_of else driver


def _whole_name_of(made_of: dict) -> str:
    """Return a name for what has met another environment's under its short name."""
    return f"{made_of['driver'][:15]}-{hashlib.sha256(canonical(made_of)).hexdigest()}"


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
    names = sorted(set(wish.get("artifacts") or ()))
    if names and names != (has := sorted(each["name"] for each in workspace.source.get("artifacts") or ())):
        differ["artifacts"] = [has, names]
    if source and source != {name: workspace.source.get(name, "") for name in source}:
        differ["source"] = [source_history.public_part(workspace.source), source]
    if differ:
        raise conflict(
            f"{workspace.key} already exists with a different {' and '.join(differ)}.",
            differs={name: {"is": was, "asked": wished} for name, (was, wished) in differ.items()},
        )


def fork(
    workspace, key: str, *, caller: Caller, number: int | None = None, environment: str | None = None
) -> Workspace:
    """Create a workspace with the files of a snapshot, by default the newest, and the same environment.

    With the name of an `environment` it gets the newest version of that one, whose setup runs on the files. Without a
    number, a snapshot is taken first if the workspace is up. Call it outside of a transaction then.
    """
    under = _under(workspace, environment, caller)
    if under != workspace.environment and not number:
        snapshot_before(workspace, f"a fork under {under.name}", by=caller.actor)
        workspace.refresh_from_db(fields=["head", "missing_snapshot"])
    found = find_snapshot(workspace, number) if number else workspace.head
    if found is None:
        raise conflict(f"{workspace.key} has no snapshot to fork from.")
    must_not_be_trashed(found)
    if workspace.missing_snapshot and not number:
        raise conflict(f"{workspace.key} has no snapshot of its last state yet, so its newest one is out of date.")
    source = _fork_of(workspace, found, under)
    base = workspace.base if under == workspace.environment else {}
    data = {"snapshot": found.number, "environment": str(under)}
    fields = {"environment": under, "base": base, "source": {"fork": source} | _tree_at(workspace, found.number)}
    return _make_fork(workspace, key, fields, data, caller)


def fork_checkpoint(checkpoint, key: str, *, caller: Caller) -> Workspace:
    """Create a workspace that continues from a checkpoint: with its memory and files, under its environment.

    Problem 403, 409 or 422 if the caller may not use that environment, or its driver is not available.
    """
    workspace, environment = checkpoint.workspace, checkpoint.environment
    is_foreign = bool(workspace.source.get("fork", {}).get("foreign"))
    if environment == workspace.environment:
        eligibility.check(environment, workspace.source, caller)
    else:  # it is under another one since
        eligibility.check_under(environment, workspace, caller)
        is_foreign = is_foreign or eligibility.is_foreign_to(environment, workspace)
    if environment.driver not in isolation.available():
        raise invalid(f"The driver {environment.driver} isn't available. {isolation.why_not(environment.driver)}")
    # An id in any case, also if retention has deleted the snapshot.
    source = _came_from(workspace, checkpoint.snapshot_number, checkpoint.snapshot_id or checkpoint.pk)
    source |= {"checkpoint": str(checkpoint.pk)} | ({"foreign": True} if is_foreign else {})
    source = {"fork": source} | _tree_at(workspace, checkpoint.snapshot_number)
    fields = {"environment": environment, "base": checkpoint.base, "source": source}
    fields |= {"disk_generation": checkpoint.disk_generation}  # its memory fits no other
    data = {"checkpoint": checkpoint.name, "snapshot": checkpoint.snapshot_number, "environment": str(environment)}
    return _make_fork(workspace, key, fields, data, caller)


def _make_fork(workspace, key: str, fields: dict, data: dict, caller: Caller) -> Workspace:
    """Create the row of a fork, with its event and the operation that creates it."""
    capacity.refuse_new()
    with type(workspace.team).objects.turn(workspace.team_id):
        caps.refuse_when_met(workspace.team_id, fields["environment"].driver, adds=True)
        if Workspace.objects.kept().filter(team=workspace.team_id, key=key).exists():
            raise conflict(f"The key {key} is already used.", field="key")
        made = Workspace.objects.create(
            team=workspace.team,
            key=key,
            runner=workspace.runner,
            uid=_next_uid(),
            created_by_agent=caller.agent,
            created_by_user=caller.user,
            owner=owner_of(caller, workspace.team),
            forked_from=workspace,
            last_active_at=clock.now(),
            **fields,
        )
        placement.place(made, keep=False)
        record(made, caller.actor, "workspace.forked", {"key": key, "from": workspace.key} | data)
        operations.submit("create", workspace=made, by=caller.actor, exclusive=True)
    return made


def _under(workspace, name: str | None, caller: Caller) -> Environment:
    """Return the environment of a fork: the workspace's own version, or the newest of the named one.

    Problem 403, 409 or 422 if the caller may not use it for these files, or its driver is not available.
    """
    if not name:
        eligibility.check(workspace.environment, workspace.source, caller)
        return workspace.environment
    found = eligibility.find_environment(workspace.team, name, caller)
    if found == workspace.environment:
        return _under(workspace, None, caller)
    eligibility.check_under(found, workspace, caller)
    if found.driver not in isolation.available():
        raise invalid(f"The driver {found.driver} isn't available. {isolation.why_not(found.driver)}")
    return found


def _fork_of(workspace, snapshot, under: Environment) -> dict:
    """Return what a fork keeps of where it comes from: the snapshot, and the repository that it can push to.

    `origin`: the source that the files first came from; `was`: the environment of the files, if the fork has another
    one; `foreign`: they came from elsewhere than the source of the fork's environment.
    """
    kept = _came_from(workspace, snapshot.number, snapshot.pk)
    if under == workspace.environment:
        return kept | ({"foreign": True} if workspace.source.get("fork", {}).get("foreign") else {})
    kept |= {"foreign": True} if eligibility.is_foreign_to(under, workspace) else {}
    return kept | {"was": str(workspace.environment)}


def _tree_at(workspace, number: int) -> dict:
    """Return what a fork's source says of the files that the source of a snapshot came with."""
    was = source_history.at(workspace, number)
    return {source_history.TREE: was[source_history.TREE]} if source_history.TREE in was else {}


def _came_from(workspace, number: int, snapshot_id) -> dict:
    remote = {"git": workspace.remote} if workspace.remote else {}
    remote |= {"default_branch": workspace.default_branch} if workspace.default_branch else {}
    kept = {"workspace": workspace.key, "snapshot": number, "id": str(snapshot_id)} | remote
    if (origin := eligibility.origin_of(workspace.source)) is not None:
        kept["origin"] = origin
    return kept
