"""Check the fields of an environment, whichever way they came: the form, the API, a devcontainer.json, the admin."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from django.conf import settings

from dashboard.models import Team
from dashboard.problems import Problem, invalid
from workspaces import secrets
from workspaces.drivers import capabilities
from workspaces.egress.http_rules import read_line, read_lines
from workspaces.egress.names import BadName
from workspaces.git_files import patterns as ignore_patterns
from workspaces.models import AgentsTogether, Environment, Lfs, Storage, Submodules
from workspaces.provisioning import agent_programs, eligibility, images, isolation, model_access
from workspaces.provisioning.git.addresses import check_git, check_word
from workspaces.secrets.team_credentials import refuse_without_key
from workspaces.services.environments.limits import check_limits
from workspaces.services.environments.lines import CHECK_NAME

RUNTIME_CLASS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NAME = re.compile(r"[\w][\w .-]{0,79}")
PHASES = ("setup", "agent")
DAY = 24 * 3600
MOST_SECONDS = {"maintenance_seconds": DAY, "idle_seconds": 7 * DAY, "stop_seconds": 365 * DAY}
MAX_CHECKS = 20
MAX_SECRETS = 50  # of a phase
MAX_VARIABLES = 100
MAX_IGNORE_LINES = 200


def check_name(name: str):
    """Problem 422 for a name that no environment can have."""
    if not NAME.fullmatch(name):
        raise invalid("A name has 1 to 80 letters, digits, spaces, dots and dashes.", field="name")


def checked(fields: dict, base: Environment | None, team: Team) -> dict:
    """Return the fields (column: value) as they are stored. Problem 422 names the `field` that is wrong.

    `base` is the version that they change, None for a new environment.
    """
    found = dict(fields)
    for field in (*CHOICES, "minimum_isolation"):
        if not found.get(field, True):  # a form without an answer
            del found[field]
    for field, check in CHECKS.items():
        if field in found:
            with _naming(field):
                found[field] = check(found[field])
    if "agents" in found:
        with _naming("agents"):
            found["agents"] = eligibility.check_agents(team, _texts("Agents", found["agents"]))
    _check_together(found, base, team)
    for field, value in found.items():
        with _naming(field):
            _check_text(field, value)
    return found


def check(fields: dict, base: Environment | None, team: Team):
    """Problem 422 that names the `field` that is wrong."""
    checked(fields, base, team)


@contextmanager
def _naming(field: str):
    try:
        yield
    except Problem as problem:
        problem.extra.setdefault("field", field)
        raise


def read_egress(request: dict) -> dict:
    """Return {"setup": [line…], "agent": [line…]} as it is stored, without empty lists. Problem 422 for a bad line."""
    given = _phases("Hosts", request)
    try:
        found = {
            phase: [str(line) for line in read_lines(hosts, opens=phase == "agent")] for phase, hosts in given.items()
        }
    except BadName as error:
        raise invalid(str(error)) from None
    return {phase: hosts for phase, hosts in found.items() if hosts}


def _phases(what: str, given) -> dict[str, list[str]]:
    if not isinstance(given, dict) or set(given) - set(PHASES):
        raise invalid(f"{what} are listed for setup and for agent.")
    return {phase: _texts(what, given.get(phase) or []) for phase in PHASES}


def _texts(what: str, given) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise invalid(f"{what} are a list of texts.")
    return given


def _secrets(given) -> dict[str, list[str]]:
    found = {phase: list(dict.fromkeys(names)) for phase, names in _phases("Secrets", given).items()}
    for names in found.values():
        for name in names:
            secrets.check_name(name)
        if len(names) > MAX_SECRETS:
            raise invalid(f"At most {MAX_SECRETS} secrets for a phase; these are {len(names)}.")
    return {phase: names for phase, names in found.items() if names}


def _commands(what: str, given) -> dict[str, str]:
    """Return {name: command} of checks or services; each command is one line, as a person edits it."""
    if not isinstance(given, dict):
        raise invalid(f"The {what} are names with commands.")
    found = {}
    for name, command in given.items():
        if not CHECK_NAME.fullmatch(name):
            raise invalid(f"{name[:80]!r} is no name for one of the {what}: begin with a letter or digit, at most 80.")
        if not isinstance(command, str) or "\0" in command or len(command.strip().splitlines()) != 1:
            raise invalid(f"The command of {name} is one line of text without NUL. Put longer ones into a script.")
        found[name.strip()] = command.strip()
    if len(found) > MAX_CHECKS:
        raise invalid(f"At most {MAX_CHECKS} {what}; these are {len(found)}.")
    return found


def _variables(given) -> dict[str, str]:
    if not isinstance(given, dict):
        raise invalid("Variables are names with values.")
    if len(given) > MAX_VARIABLES:
        raise invalid(f"At most {MAX_VARIABLES} variables; these are {len(given)}.")
    for name, value in given.items():
        secrets.check_name(name, "variable")
        if not isinstance(value, str) or "\0" in value or value.splitlines() not in ([], [value]):
            raise invalid(f"The value of {name} must be one line of text without NUL.")
        if len(value.encode("utf-8", "surrogatepass")) > secrets.VALUE_BYTES:
            raise invalid(f"The value of {name} has more than {secrets.VALUE_BYTES:,} bytes.")
    return given


def _working_directory(path: str) -> str:
    """Return a folder below /workspace as a relative path, "" for /workspace itself; Problem 422 for any other."""
    inside = PurePosixPath("/workspace") / path.strip()
    if "\0" in path or ".." in inside.parts or not inside.is_relative_to("/workspace"):
        raise invalid("The working directory must be a folder in /workspace.")
    found = inside.relative_to("/workspace").as_posix()
    return "" if found == "." else found


def _runtime_class(name: str) -> str:
    if name and not RUNTIME_CLASS.fullmatch(name):
        raise invalid("A runtime class has lower-case letters, digits, dots and dashes.")
    return name


def _snapshot_ignore(text: str) -> str:
    """Return the ignore patterns; Problem 422 for a line that is too long, or more lines than are read."""
    lines = text.splitlines()
    if len(lines) > MAX_IGNORE_LINES:
        raise invalid(f"At most {MAX_IGNORE_LINES} lines of ignore patterns; these are {len(lines)}.")
    for number, line in enumerate(lines, 1):
        if "\0" in line or len(line.encode("utf-8", "surrogatepass")) > ignore_patterns.MAX_PATTERN:
            raise invalid(f"Line {number} of the ignore patterns is too long, or has NUL.")
    return text


def _limits(given) -> dict:
    if not isinstance(given, dict):
        raise invalid("Limits are names with numbers.")
    check_limits(given)
    return given


def _seconds(most: int, given) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
        raise invalid(f"A whole number of seconds from 0 to {most:,}; 0 is the server's setting.")
    return given


def _choice(field: str, given: str) -> str:
    if given not in CHOICES[field].values:
        raise invalid(f"{field} must be one of {', '.join(CHOICES[field].values)}.")
    return given


def _upstream(given: str) -> str:
    if given and given not in settings.HANDRAIL_UPSTREAMS:
        raise invalid(f"There is no proxy {given[:40]!r} here; the operator names them in HANDRAIL_UPSTREAMS.")
    return given


CHOICES = {"agents_together": AgentsTogether, "submodules": Submodules, "lfs": Lfs, "storage": Storage}
# What one field says alone, in the order in which they are checked.
CHECKS = {
    "ref": check_word,
    "limits": _limits,
    "egress": read_egress,
    "upstream": _upstream,
    "secrets": _secrets,
    "checks": lambda given: _commands("checks", given),
    "services": lambda given: _commands("services", given),
    "runtime_class": _runtime_class,
    "snapshot_ignore": _snapshot_ignore,
    "agent_programs": lambda given: agent_programs.check_names(_texts("Programs of agents", given)),
    "variables": _variables,
    "working_directory": _working_directory,
    "model_access": model_access.check,
    **{field: lambda given, field=field: _choice(field, given) for field in CHOICES},
    **{field: lambda given, most=most: _seconds(most, given) for field, most in MOST_SECONDS.items()},
}


def _check_together(fields: dict, base: Environment | None, team: Team):
    """Problem 422 for fields that do not fit one another, or those of the version that they change."""

    def of(field, default=""):
        return fields.get(field, getattr(base, field) if base else default) or default

    if of("repository") and {"repository", "ref"} & fields.keys():
        with _naming("repository"):
            refuse_without_key(team, check_git(of("repository"), of("ref")))
    with _naming("image"):
        _check_image(fields, of("image"), of("build", {}))
    secret = {name for names in of("secrets", {}).values() for name in names}
    if named := sorted(secret & of("variables", {}).keys()):
        words = f"{named[0]} is a secret of this environment; it can't be a plain variable too."
        raise invalid(words, field="variables" if "variables" in fields else "secrets")
    driver = of("driver", capabilities.DEFAULT)
    with _naming("driver"):
        is_own = any(capabilities.of(name).own_folder for name in (driver, base.driver if base else ""))
        if is_own and (base is None or driver != base.driver):
            raise invalid("Only `manage.py connect` creates the environment of a folder, which keeps its driver.")
    if fields.get("image") and not capabilities.of(driver).takes_image:
        raise invalid("Only containers and pods have an image.", field="image")
    _check_pod(fields, driver, of("runtime_class"))
    if not capabilities.of(driver).network and any(read_line(one).scope for one in of("egress", {}).get("agent", ())):
        raise invalid("A connected folder's list has hosts alone: TLS is not opened there.", field="egress")
    if capabilities.of(driver).own_folder and fields.get("ephemeral"):
        words = "The files of a connected folder stay where they are, so it can't be ephemeral."
        raise invalid(words, field="ephemeral")
    with _naming("minimum_isolation" if fields.get("minimum_isolation") else "driver"):
        isolation.check(driver, fields.get("minimum_isolation") or capabilities.of(driver).isolation)


def _check_pod(fields: dict, driver: str, runtime_class: str):
    """Problem 422 for what only pods or containers have, and for a pod whose image names no digest."""
    is_pod, has_classes = capabilities.of(driver).elsewhere, capabilities.of(driver).runtime_classes
    if runtime_class and not has_classes and {"runtime_class", "driver"} & fields.keys():
        raise invalid("Only pods and containers have a runtime class.", field="runtime_class")
    if not is_pod and fields.get("storage", Storage.EMPTYDIR) not in ("", Storage.EMPTYDIR):
        raise invalid("Only pods have a storage.", field="storage")
    if is_pod and (image := fields.get("image")) and images.PINNED not in image:
        raise invalid("The image of a pod is named with its digest: NAME@sha256:…", field="image")
    if has_classes and runtime_class and {"runtime_class", "driver"} & fields.keys():
        known = isolation.runtime_classes(driver)
        if known and runtime_class not in known:
            words = f"No {capabilities.of(driver).backend} has the runtime class {runtime_class!r}; there are: "
            words += f"{', '.join(known)}."
            raise invalid(words, field="runtime_class")


def _check_image(fields: dict, image: str, build: dict):
    if "image" in fields or "build" in fields:
        with _naming("build"):
            images.check_build(build, image)
        images.check(image, build.get("dockerfile") or images.DOCKERFILE)


def _check_text(field: str, value):
    """Problem 422 for a text that no database stores, or that is longer than its column."""
    for text in _all_texts(value):
        if "\0" in text or any(0xD800 <= ord(each) < 0xE000 for each in text):
            raise invalid(f"{field} holds NUL (U+0000) or half of a surrogate pair, which can't be stored.")
    most = getattr(Environment._meta.get_field(field), "max_length", None)
    if most and isinstance(value, str) and len(value) > most:
        raise invalid(f"{field} has at most {most} characters.")


def _all_texts(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _all_texts(each)
