"""Environments as people edit them: a change is the next version, and a workspace keeps the one it was made from."""

import re
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, OuterRef, Subquery

from dashboard import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces import images, isolation, lifecycle, secrets
from workspaces.models import Effect, Environment, Runner, State, Workspace
from workspaces.sources import check_git

RENEW = f"{lifecycle.KINDS}.renew"
CHECK_NAME = re.compile(r"[\w][\w .:/-]{0,79}")
CHECKS_AT_MOST = 20
SECRETS_AT_MOST = 50
RUNNER_SILENT = timedelta(minutes=2)
# name in `limits`: (name that drivers use, words, unit)
LIMITS = {
    "memory_bytes": ("memory", "Memory"),
    "cpus": ("cpus", "Processors"),
    "pids": ("pids", "Processes and threads"),
    "disk_bytes": ("disk", "Disk"),
}


def newest(team_ids):
    """The newest version of each environment, with `used` and `used_older`: kept workspaces of it."""
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
    """`name = command` lines as {name: command}; Problem 422 names the line that makes no sense."""
    checks: dict = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, found, command = (part.strip() for part in line.partition("="))
        if not found or not command or not CHECK_NAME.fullmatch(name):
            raise invalid(f"Line {number} of the {what}: write name = command, such as tests = make test.")
        if name in checks:
            raise invalid(f"Line {number} of the {what}: {name} is there twice.")
        if "\0" in command:
            raise invalid(f"Line {number} of the {what}: a command holds no NUL.")
        checks[name] = command
    if len(checks) > CHECKS_AT_MOST:
        raise invalid(f"At most {CHECKS_AT_MOST} {what}; these are {len(checks)}.")
    return checks


def write_checks(checks: dict[str, str]) -> str:
    return "".join(f"{name} = {command}\n" for name, command in checks.items())


def read_secrets(setup: str, agent: str) -> dict[str, list[str]]:
    """Names of secrets by phase; Problem 422 for what is no name."""
    named = {"setup": setup, "agent": agent}
    found = {phase: list(dict.fromkeys(names.replace(",", " ").split())) for phase, names in named.items()}
    for names in found.values():
        for name in names:
            secrets.check_name(name)
        if len(names) > SECRETS_AT_MOST:
            raise invalid(f"At most {SECRETS_AT_MOST} secrets for a phase; these are {len(names)}.")
    return {phase: names for phase, names in found.items() if names}


def save(team: Team, name: str, fields: dict, *, base: Environment | None, by: Actor) -> Environment:
    """The next version of an environment, or the first one; `fields` are columns of the row, those that may change.

    `base` is the version that was edited: Problem 409 when somebody saved a newer one meanwhile, or the name is taken.
    A save that changes nothing is `base` itself.
    """
    check(fields, base)
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=team.pk)
        latest = Environment.objects.filter(team=team, name=name).order_by("-version").first()
        if latest != base:
            taken = f"There is an environment {name} already." if base is None else ""
            raise conflict(taken or f"Somebody saved version {latest.version} of {name} meanwhile. Nothing was saved.")
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


def check(fields: dict, base: Environment | None = None):
    """Problem 422 for what cannot be: an address or an image that is refused, or more isolation than there is."""
    if fields.get("repository"):
        check_git(fields["repository"], fields.get("ref", ""))
    images.check(fields.get("image") or "")
    driver = fields.get("driver") or (base.driver if base else "sandbox")
    if fields.get("image") and driver != "docker":
        raise invalid("Only containers have an image.")
    isolation.check(driver, fields.get("minimum_isolation") or isolation.ISOLATION.get(driver, "none"))


def _copy(base: Environment) -> Environment:
    """The next version, as the one before: what no form shows is kept."""
    kept = {field.attname: getattr(base, field.attname) for field in Environment._meta.concrete_fields}
    for name in ("id", "created_at"):
        del kept[name]
    return Environment(**(kept | {"version": base.version + 1}))


def adopt(workspace: Workspace, *, by: Actor) -> Environment:
    """Let an existing workspace follow the newest version of its environment: its checks at once, its limits from the
    next start on; the files stay, and the set-up does not run again."""
    with transaction.atomic():
        Team.objects.select_for_update().get(pk=workspace.team_id)
        was = workspace.environment
        latest = newest_of(was)
        if latest == was:
            raise conflict(f"{workspace.key} follows the newest version already.")
        if latest.driver != was.driver:
            raise conflict(f"Version {latest.version} uses another driver; make a new workspace from it.")
        Workspace.objects.filter(pk=workspace.pk).update(environment=latest)
        data = {"environment": was.name, "was": was.version, "version": latest.version}
        lifecycle.record(workspace, by, "workspace.environment_changed", data)
    workspace.environment = latest
    return latest


def renew(workspace: Workspace, *, by: Actor) -> Effect:
    """The newest version on the files that are there, with its set-up run again; what is there is saved first."""
    lifecycle.must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="set up again")
    if workspace.source.get("path"):
        raise conflict("A folder of your own has no set-up.")
    if workspace.team.stopped_at:
        raise conflict("Everything is stopped in this team; a person has to lift that first.")
    return lifecycle.join(workspace, "renew", by=by)


def last_renewal(workspace: Workspace) -> Effect | None:
    return Effect.objects.filter(workspace=workspace, kind=RENEW).order_by("-created_at").first()


def undo_renewal(workspace: Workspace, effect: Effect | None, *, by: Actor) -> Effect:
    """Back to the files and the version from before a renewal; can be undone like any restore."""
    if effect is None or not (effect.outcome or {}).get("ok") or effect.kind != RENEW:
        raise conflict("That was no set-up that could be undone.")
    number, was = effect.outcome["safety_snapshot"], effect.progress["was"]
    return lifecycle.restore(workspace, number, by=by, follow=was)


def limits_shown(environment: Environment) -> list[tuple[str, str, bool]]:
    """(words, value in words, whether it holds on this host): a limit that nothing enforces must not look like one."""
    held = _held_by_hosts(environment.driver) | ({"disk"} if environment.driver != "folder" else set())
    shown = []
    for name, (limit, words) in LIMITS.items():
        value = environment.limits.get(name)
        if name == "disk_bytes":
            value = value or settings.HANDRAIL_WORKSPACE_BYTES or None
        if value is None:
            shown.append((words, "no limit of its own, so this machine's", True))
        else:
            shown.append((words, _amount(name, value), limit in held))
    return shown


def _held_by_hosts(driver: str) -> set[str]:
    """The limits that every host which was heard of lately enforces for this driver."""
    lately = Runner.objects.filter(heartbeat_at__gt=clock.now() - RUNNER_SILENT)
    found = [set(runner.capabilities.get(driver, {}).get("limits", [])) for runner in lately]
    return set.intersection(*found) if found else set()


def _amount(name: str, value) -> str:
    return f"{value / 1024**2:,.0f} MB" if name.endswith("_bytes") else f"{value:,}"
