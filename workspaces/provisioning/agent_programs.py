"""The agents' programs that Handrail starts in workspaces: installed on a host, shown read-only in each run there.

With HANDRAIL_BUCKET what one host has installed is brought to the others when they need it (shared_programs.py).

An environment names them with their version (`codex@0.169.0`). Programs see them at /opt/agents/NAME/VERSION.
"""

import logging
import os
import re
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext

from dashboard.problems import Problem, conflict, invalid, not_found, unavailable
from dashboard.workers.watched import watched
from workspaces import extensions
from workspaces.drivers import capabilities
from workspaces.provisioning import npm, shared_programs

logger = logging.getLogger("handrail.runner")
AT = "/opt/agents"  # in workspaces
VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
MAX_NAMED = 10  # by one environment
PART = ".part-"  # how the names of folders begin that are not complete yet


@dataclass(frozen=True)
class Program:
    """An agent's program on npm: a package with a native binary, so that workspaces need no Node."""

    name: str
    title: str
    package: str
    binary: str  # the pattern of its path in the installed folder
    link: str  # the name in `bin` that leads there
    version: str  # that is installed unless another is named: Handrail is tried with it
    provider: str  # whose models it asks
    models: tuple[str, ...]  # that an environment gives it unless others are named: names or patterns, a name first
    key_form: str  # how a key of the provider begins

    @property
    def named(self) -> str:
        """Return NAME@VERSION of the version that Handrail is tried with."""
        return f"{self.name}@{self.version}"

    @property
    def key_name(self) -> str:
        """Return the name under which its provider's key is kept unless an environment names another."""
        return f"{self.provider.upper()}_API_KEY"


def check_names(named: list[str]) -> list[str]:
    """Return the programs that an environment names, each once. Problem 422."""
    if len(named) > MAX_NAMED:
        raise invalid(f"An environment names at most {MAX_NAMED} programs of agents.", field="agent_programs")
    for each in named:
        parse(each)
    programs = [each.partition("@")[0] for each in named]
    if len(set(programs)) != len(programs):
        raise invalid("Name each agent's program once, with one version.", field="agent_programs")
    return list(named)


def parse(named: str) -> tuple[Program, str]:
    """Return (program, version) of NAME@VERSION. Problem 422."""
    name, _, version = named.partition("@")
    if name not in extensions.agent_programs:
        known = ", ".join(extensions.agent_programs)
        raise invalid(
            f"There is no agent {name[:80]!r} that Handrail can start. It knows: {known}.", field="agent_programs"
        )
    if not VERSION.fullmatch(version):
        raise invalid(f"Give {name} a version, such as {name}@1.2.3.", field="agent_programs")
    return extensions.agent_programs[name], version


def find(name: str) -> Program:
    """Return the program of an agent. Problem 404."""
    if name not in extensions.agent_programs:
        raise not_found("agent program")
    return extensions.agent_programs[name]


def root() -> Path:
    return settings.HANDRAIL_HOME / "agents"


def folder_of(program: Program, version: str) -> Path:
    return root() / program.name / version


def is_installed(named: str) -> bool:
    program, version = parse(named)
    return (folder_of(program, version) / "bin" / program.link).exists()


def is_available(named: str) -> bool:
    """Return whether the program is installed on this host, or is brought to it when a run needs it."""
    return is_installed(named) or shared_programs.is_shared(named)


def path_inside(named: str) -> str:
    """Return the program's path in a workspace."""
    program, version = parse(named)
    return f"{AT}/{program.name}/{version}/bin/{program.link}"


def folders_for(environment) -> dict[str, Path]:
    """Return {NAME/VERSION: folder on this host} of the environment's programs that are there.

    One that another host has installed is brought first. If that fails the run goes on without it.
    """
    found = {}
    for named in environment.agent_programs:
        if environment.capabilities.agent_programs and (is_installed(named) or _is_brought(named)):
            program, version = parse(named)
            found[f"{program.name}/{version}"] = folder_of(program, version)
    return found


def _is_brought(named: str) -> bool:
    if not shared_programs.is_shared(named):
        return False
    try:
        install(named)
    except (Problem, OSError) as error:
        logger.warning("%s is not here: %s", named, error)
        return False
    return True


def choices(environments, also: str = "") -> list[tuple[str, str]]:
    """Return the choices of a form: "" for an environment's first program, each that one of them names, and `also`."""
    named = {each.partition("@")[0] for environment in environments for each in environment.agent_programs} | {also}
    titles = [(program.name, program.title) for program in extensions.agent_programs.values() if program.name in named]
    return [("", gettext("The first one that the environment names")), *titles]


def named_by(environment, name: str) -> str:
    """Return NAME@VERSION as the environment names it, its first for "". Problem 422 if it names no such program."""
    for named in environment.agent_programs:
        if not name or named.partition("@")[0] == name:
            return named
    raise invalid(
        f"The environment {environment.name} does not name {name or 'an agent'} among the agents that Handrail starts.",
        field="program",
    )


def require(environment, name: str) -> str:
    """Return NAME@VERSION, which can be started here. Problem 409, 422."""
    if not environment.capabilities.agent_programs:
        able = " and ".join(capabilities.drivers_with(agent_programs=True))
        raise conflict(f"Handrail starts agents in workspaces of {able}, not of {environment.driver}.")
    named = named_by(environment, name)
    if not is_available(named):
        raise conflict(f"{named} is not installed on this host. An operator runs `manage.py agents install {named}`.")
    return named


def available() -> list[str]:
    """Return NAME@VERSION of all that a run on this host can have."""
    return sorted({*installed(), *shared_programs.shared()})


def installed() -> list[str]:
    """Return NAME@VERSION of all that is installed on this host."""
    found = (
        f"{program.name}@{folder.name}"
        for program in extensions.agent_programs.values()
        for folder in sorted((root() / program.name).glob("*"))
        if VERSION.fullmatch(folder.name)
    )
    return [named for named in found if is_installed(named)]


def install(named: str, *, cancel: threading.Event | None = None, report=lambda written: None) -> Path:
    """Bring the program from the bucket or npm, or return its folder if it is there. Problem 422, 503; Cancelled.

    The folder gets its name once it is complete, so that an installation that was killed is none. `report` is called
    with the bytes that npm has written so far.
    """
    program, version = parse(named)
    folder = folder_of(program, version)
    if is_installed(named):
        shared_programs.share(named, folder)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    _delete_old_parts(folder.parent)
    part = Path(tempfile.mkdtemp(prefix=PART, dir=folder.parent))
    with watched() as tell:
        tell(f"+{part}")
        try:
            if not shared_programs.bring(named, part):
                npm.bring(f"{program.package}@{version}", part, tell=tell, cancel=cancel, report=report)
                _link(part, program, named)
            _let_all_read(part)
            _put_in_place(part, folder, named)
        finally:
            shutil.rmtree(part, ignore_errors=True)
            tell(f"-{part}")
    shared_programs.share(named, folder)
    return folder


def _link(folder: Path, program: Program, named: str):
    """Make `bin/NAME` lead to the native program of the package. Problem 503 if it has none for this machine."""
    found = sorted(folder.glob(program.binary))
    if not found:
        raise unavailable(f"The package of {named} has no program for this machine.")
    (folder / "bin").mkdir()
    (folder / "bin" / program.link).symlink_to(os.path.relpath(found[0], folder / "bin"))


def _put_in_place(part: Path, folder: Path, named: str):
    """Rename the complete folder; somebody else may have installed the same meanwhile."""
    if is_installed(named):
        return
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def _delete_old_parts(folder: Path):
    """Delete what a power cut left of an installation; the warden does it after any other end."""
    for part in folder.glob(f"{PART}*"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > 2 * npm.SECONDS:
                shutil.rmtree(part, ignore_errors=True)


def _let_all_read(folder: Path):
    """Make all files readable by every user: each workspace runs as a uid of its own."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))


def remove(named: str):
    """Delete an installed program, from the bucket too. Runs that are up keep what they have open. Problem 422, 503."""
    program, version = parse(named)
    if not is_available(named):
        raise invalid(f"{named} is not installed on this host.")
    shared_programs.withdraw(named)
    shutil.rmtree(folder_of(program, version), ignore_errors=True)


def versions_of(program: Program) -> list[str]:
    """Return the versions of the program that a run on this host can have, the newest first."""
    here = [named.partition("@")[2] for named in available() if named.partition("@")[0] == program.name]
    return sorted(here, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def best_of(program: Program) -> str:
    """Return NAME@VERSION for an environment: as Handrail is tried with, else the newest installed; "" if none is."""
    versions = versions_of(program)
    return program.named if program.version in versions else f"{program.name}@{versions[0]}" if versions else ""
