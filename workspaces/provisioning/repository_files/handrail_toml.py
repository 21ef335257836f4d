"""Read handrail.toml, strictly: a key that is not known, or a value of another kind, is an error that names it."""

import re
import tomllib
from pathlib import PurePosixPath

from workspaces.provisioning.repository_files.suggestion import Suggestion

KEYS = ("environment", "setup", "checks", "ignore", "policy", "agents")
CHECK_NAME = re.compile(r"[\w][\w .:/-]{0,79}")
MAX_CHECKS = 20
MAX_IGNORE_LINES = 200
MAX_AGENTS = 50


def read(path: str, data: bytes) -> Suggestion:
    """Return what the file suggests. What is wrong is in `errors`; the parts that are right are still suggested."""
    found = Suggestion(path, "Handrail")
    try:
        told = tomllib.loads(data.decode())
    except UnicodeDecodeError:
        found.errors.append("It is not UTF-8.")
        return found
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found.errors.append(f"It is not TOML: {str(error)[:200] or 'too deeply nested'}.")
        return found
    for name, value in told.items():
        if name in KEYS:
            _READ[name](found, value)
        else:
            found.errors.append(f"{name[:80]}: there is no such key; there are {', '.join(KEYS)}.")
    return found


def _environment(found: Suggestion, value):
    if _is_line(value, 80):
        found.environment = value
    else:
        found.errors.append('environment: write the name of an environment, such as environment = "default".')


def _setup(found: Suggestion, value):
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, str) for line in lines):
        found.errors.append('setup: write a script, or a list of lines, such as setup = ["make deps"].')
    else:
        found.take_script("setup", "\n".join(lines))


def _checks(found: Suggestion, value):
    if not isinstance(value, dict) or len(value) > MAX_CHECKS:
        found.errors.append(f'checks: write at most {MAX_CHECKS} lines below [checks], such as tests = "make test".')
        return
    checks = {}
    for name, command in value.items():
        if not CHECK_NAME.fullmatch(name) or not _is_line(command, 2000):
            found.errors.append(f"checks.{name[:80]}: write a name of letters and digits, and a command on one line.")
        else:
            checks[name] = command
    if checks:
        found.fields["checks"] = checks


def _ignore(found: Suggestion, value):
    if not isinstance(value, list) or len(value) > MAX_IGNORE_LINES or not all(_is_line(line, 500) for line in value):
        found.errors.append(f'ignore: write a list of at most {MAX_IGNORE_LINES} patterns, such as ["node_modules/"].')
    elif value:
        found.fields["snapshot_ignore"] = "".join(f"{line}\n" for line in value)


def _policy(found: Suggestion, value):
    is_inside = _is_line(value, 500) and not value.startswith("/") and ".." not in PurePosixPath(value).parts
    if is_inside:
        found.policy = value
        found.notes.append(f"policy: {value} is not read by Handrail. A lead can paste its text on the Policy page.")
    else:
        found.errors.append('policy: write a path in the repository, such as policy = "handrail-policy.toml".')


def _agents(found: Suggestion, value):
    if not isinstance(value, list) or len(value) > MAX_AGENTS or not all(_is_line(name, 200) for name in value):
        found.errors.append(f'agents: write a list of at most {MAX_AGENTS} names, such as ["claude"].')
    elif any("," in name for name in value):
        found.errors.append("agents: a name can't contain a comma.")
    elif value:
        found.fields["agents"] = value


def _is_line(value, most: int) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= most and value.isprintable()


_READ = {
    "environment": _environment,
    "setup": _setup,
    "checks": _checks,
    "ignore": _ignore,
    "policy": _policy,
    "agents": _agents,
}
