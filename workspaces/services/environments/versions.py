"""Edit environments: a change creates the next version, and a workspace keeps the version it was created from."""

import re
from pathlib import PurePosixPath

from django.db.models import Count, F, OuterRef, Subquery

from dashboard.access import Caller
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces import lifecycle, operations, secrets
from workspaces.manifests import ignore_patterns
from workspaces.models import FOLDER, AgentsTogether, Environment, Operation, State, Workspace
from workspaces.provisioning import agent_programs, caps, eligibility, images, isolation, model_access
from workspaces.provisioning.sources import check_git
from workspaces.services.environments.limits import check_limits

REBUILD = "rebuild"
CHECK_NAME = re.compile(r"[\w][\w .:/-]{0,79}")
MAX_CHECKS = 20
MAX_SECRETS = 50
MAX_VARIABLES = 100
MAX_IGNORE_LINES = 200


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


def read_variables(text: str, what: str = "variables") -> dict[str, str]:
    """Parse `NAME=value` lines to {name: value}; Problem 422 names the invalid line. The value is all after the `=`."""
    found: dict = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, has_value, value = line.partition("=")
        if not has_value:
            raise invalid(f"Line {number} of the {what}: write NAME=value.")
        if name.strip() in found:
            raise invalid(f"Line {number} of the {what}: {name.strip()} appears twice.")
        found[name.strip()] = value.strip()
    return found


def write_variables(variables: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def check_variables(variables: dict, named_secrets: dict) -> None:
    """Problem 422 for an invalid or reserved name, an unusable value, or a name that is a secret's of this version."""
    if len(variables) > MAX_VARIABLES:
        raise invalid(f"At most {MAX_VARIABLES} variables; these are {len(variables)}.")
    secret = {name for names in named_secrets.values() for name in names}
    for name, value in variables.items():
        secrets.check_name(name, "variable")
        if not isinstance(value, str) or "\0" in value or "\n" in value:
            raise invalid(f"The value of {name} must be one line of text without NUL.")
        if len(value.encode("utf-8", "surrogatepass")) > secrets.VALUE_BYTES:
            raise invalid(f"The value of {name} has more than {secrets.VALUE_BYTES:,} bytes.")
        if name in secret:
            raise invalid(f"{name} is a secret of this environment; it can't be a plain variable too.")


def check_working_directory(path: str) -> str:
    """Return a folder below /workspace as a relative path, "" for /workspace itself; Problem 422 for any other."""
    inside = PurePosixPath("/workspace") / path.strip()
    if "\0" in path or ".." in inside.parts or not inside.is_relative_to("/workspace"):
        raise invalid("The working directory must be a folder in /workspace.")
    found = inside.relative_to("/workspace").as_posix()
    return "" if found == "." else found


def check_ignore(text: str):
    """Problem 422 for ignore patterns with a line that is too long, or with more lines than are read."""
    lines = text.splitlines()
    if len(lines) > MAX_IGNORE_LINES:
        raise invalid(f"At most {MAX_IGNORE_LINES} lines of ignore patterns; these are {len(lines)}.")
    for number, line in enumerate(lines, 1):
        if "\0" in line or len(line.encode("utf-8", "surrogatepass")) > ignore_patterns.MAX_PATTERN:
            raise invalid(f"Line {number} of the ignore patterns is too long, or has NUL.")


def save(team: Team, name: str, fields: dict, *, base: Environment | None, by: Actor) -> Environment:
    """Save `fields` (column: value) as the next version of an environment, or as the first; return that version.

    `base` is the edited version, None for a new environment. Problem 409 if a newer version was saved meanwhile, or if
    the name of a new one is taken. A save without changes returns `base`.
    """
    check(fields, base)
    if not fields.get("agents_together", AgentsTogether.WARN):  # a form without an answer
        fields = {column: value for column, value in fields.items() if column != "agents_together"}
    if "working_directory" in fields:
        fields = fields | {"working_directory": check_working_directory(fields["working_directory"])}
    if "agents" in fields:
        fields = fields | {"agents": eligibility.check_agents(team, fields["agents"])}
    if "model_access" in fields:
        fields = fields | {"model_access": model_access.check(fields["model_access"])}
    with Team.objects.turn(team.pk):
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
    """Problem 422 for an invalid repository, image, limit or driver, or for more isolation than the driver offers."""
    check_limits(fields.get("limits") or {})
    if fields.get("repository"):
        check_git(fields["repository"], fields.get("ref", ""))
    _check_image(fields, base)
    named = fields.get("secrets", base.secrets if base else {})
    check_ignore(fields.get("snapshot_ignore") or "")
    agent_programs.check_names(fields.get("agent_programs") or [])
    check_variables(fields.get("variables", base.variables if base else {}), named)
    driver = fields.get("driver") or (base.driver if base else "sandbox")
    if FOLDER in (driver, base and base.driver) and (base is None or driver != base.driver):
        raise invalid("Only `manage.py connect` creates the environment of a folder, which keeps its driver.")
    if fields.get("image") and driver != "docker":
        raise invalid("Only containers have an image.")
    if driver == FOLDER and fields.get("ephemeral"):
        raise invalid("The files of a connected folder stay where they are, so it can't be ephemeral.")
    if (fields.get("agents_together") or AgentsTogether.WARN) not in AgentsTogether.values:
        raise invalid(f"agents_together must be one of {', '.join(AgentsTogether.values)}.")
    isolation.check(driver, fields.get("minimum_isolation") or isolation.ISOLATION.get(driver, "none"))


def _check_image(fields: dict, base: Environment | None):
    image = fields.get("image", base.image if base else "") or ""
    build = fields.get("build", base.build if base else {}) or {}
    if "image" in fields or "build" in fields:
        images.check_build(build, image)
        images.check(image, build.get("dockerfile") or images.DOCKERFILE)


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
    if workspace.source.get("path"):
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
    return [] if driver == FOLDER else list(others.filter(driver=driver).order_by("name"))


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
