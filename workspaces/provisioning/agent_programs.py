"""The agents' programs that Handrail starts in workspaces: installed once on a host, shown read-only in each run.

An environment names them with their version (`codex@0.169.0`). Programs see them at /opt/agents/NAME/VERSION.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext

from dashboard.problems import conflict, invalid, unavailable
from workspaces import extensions
from workspaces.drivers import capabilities

AT = "/opt/agents"  # in workspaces
VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
MAX_NAMED = 10  # by one environment
NPM_SECONDS = 1800


@dataclass(frozen=True)
class Program:
    """An agent's program on npm: a package with a native binary, so that workspaces need no Node."""

    name: str
    title: str
    package: str
    binary: str  # the pattern of its path in the installed folder
    link: str  # the name in `bin` that leads there


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


def root() -> Path:
    return settings.HANDRAIL_HOME / "agents"


def folder_of(program: Program, version: str) -> Path:
    return root() / program.name / version


def is_installed(named: str) -> bool:
    program, version = parse(named)
    return (folder_of(program, version) / "bin" / program.link).exists()


def path_inside(named: str) -> str:
    """Return the program's path in a workspace."""
    program, version = parse(named)
    return f"{AT}/{program.name}/{version}/bin/{program.link}"


def folders_for(environment) -> dict[str, Path]:
    """Return {NAME/VERSION: folder on this host} of the environment's programs that are installed."""
    found = {}
    for named in environment.agent_programs:
        if environment.capabilities.agent_programs and is_installed(named):
            program, version = parse(named)
            found[f"{program.name}/{version}"] = folder_of(program, version)
    return found


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
    if not is_installed(named):
        raise conflict(f"{named} is not installed on this host. An operator runs `manage.py agents install {named}`.")
    return named


def installed() -> list[str]:
    """Return NAME@VERSION of all that is installed on this host."""
    found = (
        f"{program.name}@{folder.name}"
        for program in extensions.agent_programs.values()
        for folder in sorted((root() / program.name).glob("*"))
        if VERSION.fullmatch(folder.name)
    )
    return [named for named in found if is_installed(named)]


def install(named: str) -> Path:
    """Bring the program from npm, which checks what it brings; no script of a package runs. Problem 422, 503."""
    program, version = parse(named)
    folder = folder_of(program, version)
    if is_installed(named):
        return folder
    if shutil.which("npm") is None:
        raise unavailable("npm is not on this PATH. It brings the program; nothing else needs Node.")
    part = folder.with_name(f".{version}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _npm(part, f"{program.package}@{version}")
        found = sorted(part.glob(program.binary))
        if not found:
            raise unavailable(f"The package of {named} has no program for this machine.")
        (part / "bin").mkdir()
        (part / "bin" / program.link).symlink_to(os.path.relpath(found[0], part / "bin"))
        _let_all_read(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _npm(folder: Path, package: str):
    line = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
    line.append("--fetch-retry-maxtimeout=10000")  # ms; npm's own is a minute, for each try
    try:
        subprocess.run([*line, package], check=True, capture_output=True, text=True, timeout=NPM_SECONDS)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.strip().splitlines() if "error" in line.lower()]
        told = list(dict.fromkeys([*lines[:1], *(line for line in lines if "request to" in line)][:2]))
        if any("CERT" in line for line in lines):
            told.append("If a proxy here signs TLS itself, name the file of its CA in NODE_EXTRA_CA_CERTS.")
        raise unavailable(f"npm could not bring {package}: {' '.join(told or ['it says nothing'])[:500]}") from None
    except subprocess.TimeoutExpired:
        raise unavailable(f"npm did not bring {package} within {NPM_SECONDS // 60} minutes.") from None


def _let_all_read(folder: Path):
    """Make all files readable by every user: each workspace runs as a uid of its own."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))


def remove(named: str):
    """Delete an installed program. Runs that are up keep what they have open."""
    program, version = parse(named)
    if not is_installed(named):
        raise invalid(f"{named} is not installed on this host.")
    shutil.rmtree(folder_of(program, version))
