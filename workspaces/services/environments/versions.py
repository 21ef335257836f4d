"""Edit environments: a change creates the next version, and a workspace keeps the version it was created from."""

from django.db.models import Count, F, OuterRef, Subquery

from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor, Event, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict
from workspaces import lifecycle, operations
from workspaces.drivers import capabilities
from workspaces.models import Environment, Operation, State, Workspace
from workspaces.provisioning import caps, eligibility, isolation
from workspaces.services.environments.fields import check_name, checked

REBUILD = "rebuild"


def newest(team_ids):
    """Return the newest version of each environment, annotated with its numbers of workspaces outside the trash.

    `used`: of any version; `used_older`: of an older one.
    """
    kept = Workspace.objects.kept().filter(environment__team=OuterRef("team"), environment__name=OuterRef("name"))
    used = kept.order_by().values("environment__name").annotate(n=Count("pk")).values("n")
    older = kept.order_by().filter(environment__version__lt=OuterRef("version"))
    return (
        newest_versions(team_ids)
        .select_related("team")
        .annotate(
            used=Subquery(used),
            used_older=Subquery(older.values("environment__name").annotate(n=Count("pk")).values("n")),
        )
    )


def newest_versions(team_ids):
    """Return the newest version of each environment."""
    versions = Environment.objects.filter(team=OuterRef("team"), name=OuterRef("name"))
    latest = Subquery(versions.order_by("-version").values("version")[:1])
    return Environment.objects.filter(team__in=team_ids).annotate(latest=latest).filter(version=F("latest"))


def to_choose_from(teams: list[Team]) -> list[Environment]:
    """Return what a person may name as the environment of a new workspace, by name: the newest version of each.

    `default` is among them also before it is made, which happens when it is first used; then it is not saved.
    """
    found = list(newest_versions(teams).to_make_from().select_related("team"))
    known = set(Environment.objects.filter(team__in=teams, name=eligibility.DEFAULT).values_list("team", flat=True))
    if eligibility.can_make_default():
        without = [team for team in teams if team.pk not in known]
        about = {"name": eligibility.DEFAULT} | eligibility.DEFAULT_MADE_OF
        found += [Environment(team=team, **about) for team in without]
    return sorted(found, key=lambda each: each.name)


def newest_of(environment: Environment) -> Environment:
    return Environment.objects.filter(team=environment.team_id, name=environment.name).order_by("-version").first()


def save(team: Team, name: str, fields: dict, *, base: Environment | None, by: Actor) -> Environment:
    """Save `fields` (column: value) as the next version of an environment, or as the first; return that version.

    `base` is the edited version, None for a new environment. Problem 409 if a newer version was saved meanwhile, or if
    the name of a new one is taken. A save without changes returns `base`.
    """
    fields = checked(fields, base, team)
    with Team.objects.turn(team.pk):
        if base is None:
            check_name(name)
            must_be_free(team, name)
        else:
            must_be_newest(base)
        changed = [field for field in fields if base is None or fields[field] != getattr(base, field)]
        if base and not changed:
            return base
        made = _copy(base) if base else Environment(team=team, name=name)
        for field, value in fields.items():
            setattr(made, field, value)
        if "minimum_isolation" not in fields:
            made.minimum_isolation = isolation.offered(made.driver, made.runtime_class)
        made.save(force_insert=True)
        data = {"name": name, "version": made.version, "changed": changed}
        Event.objects.record(team, actor=by, verb="environment.saved", subject=made, data=data)
    return made


def must_be_free(team: Team, name: str):
    """Problem 409 if the team has an environment with this name."""
    if Environment.objects.filter(team=team, name=name).exists():
        raise conflict(f"An environment named {name} already exists.")


def must_be_newest(base: Environment):
    """Problem 409 for an older version: saving it would revert the changes of newer ones."""
    latest = newest_of(base)
    if latest != base:
        raise conflict(f"Someone else saved version {latest.version} of {base.name}. Nothing was saved.")


def _copy(base: Environment) -> Environment:
    """Return an unsaved next version with the same values, so that columns that no form shows are kept."""
    kept = {field.attname: getattr(base, field.attname) for field in Environment._meta.concrete_fields}
    for name in ("id", "created_at"):
        del kept[name]
    return Environment(**(kept | {"version": base.version + 1}))


def adopt(workspace: Workspace, *, by: Actor) -> Environment:
    """Move a workspace to the newest version of its environment; return that version.

    The checks apply immediately, the limits from the next start. Files stay, and setup does not run again. A snapshot
    is taken first.
    """
    if (version := newest_of(workspace.environment).version) != workspace.environment.version:
        lifecycle.snapshot_before(workspace, f"version {version} of {workspace.environment.name}", by=by)
    with Team.objects.turn(workspace.team_id):
        was = workspace.environment
        latest = newest_of(was)
        if latest == was:
            raise conflict(f"{workspace.key} already uses the newest version.")
        if latest.driver != was.driver:
            raise conflict(f"Version {latest.version} uses another driver; create a new workspace from it.")
        _refuse_strange_source(workspace, latest)
        Workspace.objects.filter(pk=workspace.pk).update(environment=latest)
        data = {"environment": was.name, "was": was.version, "version": latest.version}
        lifecycle.record(workspace, by, "workspace.environment_changed", data)
    workspace.environment = latest
    return latest


def _refuse_strange_source(workspace: Workspace, latest: Environment):
    """Problem 409 if the agent that created the workspace may not use this version's secrets with its source."""
    agent = workspace.created_by_agent
    if agent and (words := eligibility.why_not(latest, workspace.source, agent)):
        raise conflict(words)


def rebuild(workspace: Workspace, *, by: Actor) -> Operation:
    """Rebuild: run the setup of the newest version on the current files, after a safety snapshot."""
    lifecycle.must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="rebuilt")
    if workspace.own_folder:
        raise conflict("A connected folder has no setup.")
    latest = newest_of(workspace.environment)
    if words := eligibility.why_no_set_up(latest):
        raise conflict(words)
    _refuse_strange_source(workspace, latest)
    return lifecycle.submit_exclusive(workspace, "rebuild", by=by)


def to_move_to(workspace: Workspace) -> list[Environment]:
    """Return the newest versions of other environments that the files of a workspace can be put under, in place."""
    others = newest([workspace.team_id]).to_make_from().exclude(name=workspace.environment.name)
    driver = workspace.environment.driver
    return [] if capabilities.of(driver).own_folder else list(others.filter(driver=driver).order_by("name"))


def move(workspace: Workspace, name: str, *, caller: Caller) -> Operation:
    """Put the files of a workspace at rest under the newest version of another environment, and start it.

    Its setup runs on the files, after a snapshot; `undo_rebuild` undoes it. Problem 403, 409 or 422.
    """
    lifecycle.must_be(workspace, State.PAUSED, State.STOPPED, what="moved to another environment")
    found = eligibility.find_environment(workspace.team, name, caller)
    if found.name == workspace.environment.name:
        raise conflict(f"{workspace.key} is of {name} already. Rebuild it for the newest version.")
    eligibility.check_under(found, workspace, caller)
    maker = workspace.created_by_agent
    if maker and (words := eligibility.why_not_under(found, workspace, maker)):
        raise conflict(words)
    if found.driver != workspace.environment.driver:
        raise conflict(
            f"{name} uses the driver {found.driver}, and {workspace.key} {workspace.environment.driver}. "
            f"Fork it under {name} instead."
        )
    refuse_when_stopped(workspace.team_id)
    caps.refuse_when_met(workspace.team_id, found.driver)
    args = {"environment": str(found.pk), "then_resume": True}
    return operations.submit(REBUILD, workspace=workspace, by=caller.actor, args=args, exclusive=True)


def last_rebuild(workspace: Workspace) -> Operation | None:
    return Operation.objects.filter(workspace=workspace, kind=REBUILD).order_by("-created_at").first()


def undo_rebuild(workspace: Workspace, operation: Operation | None, *, by: Actor) -> Operation:
    """Restore the files and the environment version from before a rebuild; can be undone like any restore."""
    if operation is None or not (operation.outcome or {}).get("ok") or operation.kind != REBUILD:
        raise conflict("That rebuild can't be undone.")
    number, was = operation.outcome["safety_snapshot"], operation.progress["was"]
    return lifecycle.restore(workspace, number, by=by, follow=was)
