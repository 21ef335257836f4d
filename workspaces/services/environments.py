"""Edit environments: a change creates the next version, and a workspace keeps the version it was created from."""

import re

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, OuterRef, Subquery
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces import lifecycle, secrets
from workspaces.drivers.base import PIDS
from workspaces.models import FOLDER, Environment, Operation, Runner, State, Workspace
from workspaces.provisioning import eligibility, images, isolation
from workspaces.provisioning.sources import check_git

REBUILD = "rebuild"
CHECK_NAME = re.compile(r"[\w][\w .:/-]{0,79}")
MAX_CHECKS = 20
MAX_SECRETS = 50
# name in `limits`: (name that drivers use, label)
LIMITS = {
    "memory_bytes": ("memory", gettext_lazy("Memory")),
    "cpus": ("cpus", gettext_lazy("Processors")),
    "pids": ("pids", gettext_lazy("Processes and threads")),
    "disk_bytes": ("disk", gettext_lazy("Disk")),
}


def newest(team_ids):
    """Return the newest version of each environment, annotated with its numbers of workspaces outside the trash.

    `used`: of any version; `used_older`: of an older one.
    """
    versions = Environment.objects.filter(team=OuterRef("team"), name=OuterRef("name"))
    kept = Workspace.objects.kept().filter(environment__team=OuterRef("team"), environment__name=OuterRef("name"))
    used = kept.order_by().values("environment__name").annotate(n=Count("pk")).values("n")
    older = kept.order_by().filter(environment__version__lt=OuterRef("version"))
    return (
        Environment.objects.filter(team__in=team_ids)
        .annotate(latest=Subquery(versions.order_by("-version").values("version")[:1]))
        .filter(version=F("latest"))
        .select_related("team")
        .annotate(
            used=Subquery(used),
            used_older=Subquery(older.values("environment__name").annotate(n=Count("pk")).values("n")),
        )
    )


def newest_of(environment: Environment) -> Environment:
    return Environment.objects.filter(team=environment.team_id, name=environment.name).order_by("-version").first()


def read_checks(text: str, what: str = "checks") -> dict[str, str]:
    """Parse `name = command` lines to {name: command}; Problem 422 names the invalid line."""
    checks: dict = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, found, command = (part.strip() for part in line.partition("="))
        if not found or not command or not CHECK_NAME.fullmatch(name):
            raise invalid(f"Line {number} of the {what}: write name = command, such as tests = make test.")
        if name in checks:
            raise invalid(f"Line {number} of the {what}: {name} appears twice.")
        if "\0" in command:
            raise invalid(f"Line {number} of the {what}: a command can't contain NUL.")
        checks[name] = command
    if len(checks) > MAX_CHECKS:
        raise invalid(f"At most {MAX_CHECKS} {what}; these are {len(checks)}.")
    return checks


def write_checks(checks: dict[str, str]) -> str:
    return "".join(f"{name} = {command}\n" for name, command in checks.items())


def read_secrets(setup: str, agent: str) -> dict[str, list[str]]:
    """Parse the names of secrets to {phase: [name…]}; Problem 422 for an invalid name."""
    named = {"setup": setup, "agent": agent}
    found = {phase: list(dict.fromkeys(names.replace(",", " ").split())) for phase, names in named.items()}
    for names in found.values():
        for name in names:
            secrets.check_name(name)
        if len(names) > MAX_SECRETS:
            raise invalid(f"At most {MAX_SECRETS} secrets for a phase; these are {len(names)}.")
    return {phase: names for phase, names in found.items() if names}


def save(team: Team, name: str, fields: dict, *, base: Environment | None, by: Actor) -> Environment:
    """Save `fields` (column: value) as the next version of an environment, or as the first; return that version.

    `base` is the edited version, None for a new environment. Problem 409 if a newer version was saved meanwhile, or if
    the name of a new one is taken. A save without changes returns `base`.
    """
    check(fields, base)
    if "agents" in fields:
        fields = fields | {"agents": eligibility.check_agents(team, fields["agents"])}
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=team.pk)
        if base is None:
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
            made.minimum_isolation = isolation.offered(made.driver)
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


def check(fields: dict, base: Environment | None = None):
    """Problem 422 for an invalid repository, image or driver, or for more isolation than the driver offers."""
    if fields.get("repository"):
        check_git(fields["repository"], fields.get("ref", ""))
    images.check(fields.get("image") or "")
    driver = fields.get("driver") or (base.driver if base else "sandbox")
    if FOLDER in (driver, base and base.driver) and (base is None or driver != base.driver):
        raise invalid("Only `manage.py connect` creates the environment of a folder, which keeps its driver.")
    if fields.get("image") and driver != "docker":
        raise invalid("Only containers have an image.")
    isolation.check(driver, fields.get("minimum_isolation") or isolation.ISOLATION.get(driver, "none"))


def _copy(base: Environment) -> Environment:
    """Return an unsaved next version with the same values, so that columns that no form shows are kept."""
    kept = {field.attname: getattr(base, field.attname) for field in Environment._meta.concrete_fields}
    for name in ("id", "created_at"):
        del kept[name]
    return Environment(**(kept | {"version": base.version + 1}))


def adopt(workspace: Workspace, *, by: Actor) -> Environment:
    """Move a workspace to the newest version of its environment; return that version.

    The checks apply immediately, the limits from the next start. Files stay, and setup does not run again.
    """
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=workspace.team_id)
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
    if workspace.source.get("path"):
        raise conflict("A connected folder has no setup.")
    latest = newest_of(workspace.environment)
    if words := eligibility.why_no_set_up(latest):
        raise conflict(words)
    _refuse_strange_source(workspace, latest)
    return lifecycle.submit_exclusive(workspace, "rebuild", by=by)


def last_rebuild(workspace: Workspace) -> Operation | None:
    return Operation.objects.filter(workspace=workspace, kind=REBUILD).order_by("-created_at").first()


def undo_rebuild(workspace: Workspace, operation: Operation | None, *, by: Actor) -> Operation:
    """Restore the files and the environment version from before a rebuild; can be undone like any restore."""
    if operation is None or not (operation.outcome or {}).get("ok") or operation.kind != REBUILD:
        raise conflict("That rebuild can't be undone.")
    number, was = operation.outcome["safety_snapshot"], operation.progress["was"]
    return lifecycle.restore(workspace, number, by=by, follow=was)


def limits_shown(environment: Environment) -> list[tuple[str, str, bool]]:
    """Return (name, formatted value, whether it is enforced): a limit that no host enforces must not look like one."""
    held = _held_by_hosts(environment.driver) | ({"disk"} if environment.driver != "folder" else set())
    shown = []
    for name, (limit, words) in LIMITS.items():
        value = environment.limits.get(name)
        if name == "disk_bytes":
            value = value or settings.HANDRAIL_WORKSPACE_BYTES or None
        elif name == "pids" and environment.driver != FOLDER:
            value = value or PIDS
        if value is None:
            shown.append((words, gettext("unlimited (host limits apply)"), True))
        else:
            shown.append((words, _amount(name, value), limit in held))
    return shown


def _held_by_hosts(driver: str) -> set[str]:
    """Return the limits that every host with a live runner enforces for this driver."""
    found = [set(runner.capabilities.get(driver, {}).get("limits", [])) for runner in Runner.objects.alive()]
    return set.intersection(*found) if found else set()


def _amount(name: str, value) -> str:
    return f"{value / 1024**2:,.0f} MB" if name.endswith("_bytes") else f"{value:,}"
