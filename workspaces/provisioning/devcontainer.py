"""Read a devcontainer.json into the fields of an environment, and say in words what Handrail does otherwise or refuses.

Only the properties below are read; https://containers.dev has their meaning. Nothing is run and nothing is fetched.
"""

import math
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import json5

from dashboard.problems import invalid
from handrail_verify import canonical
from workspaces.drivers import capabilities

MAX_BYTES = 64 * 1024  # the parser reads some 100 KB a second
MB = 1024**2
WITH_IMAGE = capabilities.drivers_with(takes_image=True)[0]
PLACES = (".devcontainer/devcontainer.json", ".devcontainer.json")
UNITS = {"": 1, "kb": 1024, "mb": MB, "gb": 1024**3, "tb": 1024**4}
SIZE = re.compile(r"(\d+)([kmgt]b)?", re.IGNORECASE | re.ASCII)
FOLDER = re.compile(r"\$\{containerWorkspaceFolder(Basename)?\}")
DEFAULT = re.compile(r"\$\{(?:localEnv|env):[\w.()-]*:((?:[^}$]|\$(?!\{))*)\}")
# The variables of the format; any other ${…} is the shell's, or stays as it is written.
OF_HOST = re.compile(r"\$\{(?:localEnv|env|containerEnv|localWorkspaceFolder(?:Basename)?)(?::(?:[^}$]|\$(?!\{))*)?\}")
OF_CONTAINER = re.compile(r"\$\{devcontainerId\}")
VARIABLE = re.compile(r"\$\{(?:[^}$]|\$(?!\{))*\}")
# Where a devcontainer puts the repository unless it says otherwise.
DEFAULT_FOLDER = re.compile(r"/workspaces/(?:\$\{localWorkspaceFolderBasename\}|[^/]+)(?:/(?P<below>.*))?")

REFUSED = {
    "features": "Features are not installed. Put what they bring into the Dockerfile or the setup script.",
    "initializeCommand": "It would run on the host, outside every workspace.",
    "privileged": "Containers of workspaces are never privileged.",
    "capAdd": "Containers of workspaces get no further capabilities.",
    "securityOpt": "The security options of workspaces can't be weakened.",
    "runArgs": "Arguments for `docker run` are not passed on; limits have fields of their own.",
    "mounts": "Folders of the host are never mounted into a workspace.",
    "workspaceMount": "The repository is always at /workspace, on storage of Handrail's.",
    "postAttachCommand": "Nothing attaches to a workspace. Use a service or a check.",
    "containerUser": "Programs run as the workspace's own user, which is not root.",
    "remoteUser": "Programs run as the workspace's own user, which is not root.",
    "appPort": "Ports are not published on the host.",
}
WITHOUT_EFFECT = {
    "init": "A workspace always has an init process.",
    "overrideCommand": "The image's command is never run.",
    "customizations": "Settings of editors have no effect here.",
    "extensions": "Settings of editors have no effect here.",
    "settings": "Settings of editors have no effect here.",
    "forwardPorts": "Ports on which programs listen are found by themselves and shown on the Network page.",
    "portsAttributes": "Ports on which programs listen are found by themselves and shown on the Network page.",
    "otherPortsAttributes": "Ports on which programs listen are found by themselves and shown on the Network page.",
    "updateRemoteUserUID": "Handrail gives each workspace a user id of its own.",
    "userEnvProbe": "Programs get the variables of the environment, not those of a login shell.",
    "shutdownAction": "When a workspace pauses and stops is set below.",
    "waitFor": "The workspace is ready when its setup has ended.",
    "overrideFeatureInstallOrder": "Features are not installed.",
    "$schema": "",
}
SET_UP = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
ENVIRONMENT = ("containerEnv", "remoteEnv")
SIZES = {"memory": "memory_bytes", "storage": "disk_bytes"}


@dataclass
class Reading:
    """What a devcontainer.json becomes: `fields` of an environment, and (property, sentence) of three kinds."""

    name: str = ""
    fields: dict = field(default_factory=dict)
    taken: list[tuple[str, str]] = field(default_factory=list)
    without_effect: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def take(self, name: str, sentence: str, **fields):
        self.fields |= fields
        self.taken.append((name, sentence))

    def refuse(self, name: str, sentence: str):
        self.refused.append((name, sentence))

    def as_json(self) -> dict:
        said = {kind: [{"property": name, "message": text} for name, text in getattr(self, kind)] for kind in SAID}
        return {"name": self.name, "fields": self.fields, **said}


EMPTY = (None, False, "", [], {})
SAID = ("taken", "without_effect", "refused")


def find(folder: Path) -> Path:
    """Return the devcontainer.json of a repository; Problem 422 if it has none, or only several below .devcontainer."""
    for place in PLACES:
        if (folder / place).is_file():
            return folder / place
    several = sorted(folder.glob(".devcontainer/*/devcontainer.json"))
    if len(several) == 1:
        return several[0]
    if several:
        names = ", ".join(path.parent.name for path in several)
        raise invalid(f"{folder} has several ({names}). Name the devcontainer.json of one of them.")
    raise invalid(f"{folder} has no devcontainer.json.")


def read(text: str, file: Path | None = None) -> Reading:
    """Return the Reading of a devcontainer.json; Problem 422 if it can't be parsed or needs Docker Compose.

    `file`: where it lies on this host, for images that are built; None if only its text is known.
    """
    found = _parsed(text)
    if found.get("dockerComposeFile") not in EMPTY:
        raise invalid("It is for Docker Compose. A workspace is one container: name an image or a Dockerfile instead.")
    reading = Reading(name=str(found.get("name", ""))[:80])
    _image(reading, found, file)
    _folder(reading, found)
    _scripts(reading, found)
    _variables(reading, found)
    _limits(reading, found)
    _secrets(reading, found)
    read_here = {"name", "image", "build", "dockerFile", "context", *SET_UP, *ENVIRONMENT, "postStartCommand"}
    for name in found.keys() - read_here - {"workspaceFolder", "hostRequirements", "secrets", "dockerComposeFile"}:
        if name in WITHOUT_EFFECT:
            reading.without_effect.append((name, WITHOUT_EFFECT[name]))
        elif name not in REFUSED or found[name] not in EMPTY:
            reading.refuse(name, REFUSED.get(name, "Handrail does not know this property."))
    for rows in (reading.without_effect, reading.refused):
        rows.sort()
    return reading


def _parsed(text: str) -> dict:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise invalid(f"A devcontainer.json has at most {MAX_BYTES // 1024} KB.")
    try:
        found = json5.loads(text, allow_duplicate_keys=False)
    except (ValueError, RecursionError) as error:
        raise invalid(f"This is not a devcontainer.json: {str(error)[:300]}") from None
    if not isinstance(found, dict):
        raise invalid("This is not a devcontainer.json: it must be an object.")
    return found


def _image(reading: Reading, found: dict, file: Path | None):
    build = found.get("build") if isinstance(found.get("build"), dict) else {}
    dockerfile = build.get("dockerfile") or found.get("dockerFile")
    if not dockerfile:
        if isinstance(found.get("image"), str):
            reading.take(
                "image",
                "Containers have this image. A lead can have it pulled on the environment's page.",
                driver=WITH_IMAGE,
            )
            reading.fields["image"] = found["image"]
        return
    if file is None:
        sentence = "An image is built from a folder of this host: run `manage.py devcontainer FOLDER` there."
        reading.refuse("build", sentence)
        return
    context = (file.parent / str(build.get("context") or found.get("context") or ".")).resolve()
    path = (file.parent / str(dockerfile)).resolve()
    if not path.is_relative_to(context):
        reading.refuse("build", "The Dockerfile lies outside its context.")
        return
    args = build.get("args") or {}
    if not isinstance(args, dict) or any(VARIABLE.search(str(value)) for value in args.values()):
        reading.refuse("build.args", "Values with ${…} would come from the host's environment.")
        args = {}
    named = {"dockerfile": path.relative_to(context).as_posix(), "args": {k: str(v) for k, v in args.items()}}
    if build.get("target"):
        named["target"] = str(build["target"])
    reading.take(
        "build",
        "The image is built from this folder, without a network.",
        driver=WITH_IMAGE,
        build=named,
    )
    reading.fields["image"] = str(context)
    for name in ("cacheFrom", "options"):
        if build.get(name):
            reading.refuse(f"build.{name}", "Not passed to the build, which pulls nothing and has no network.")


def _scripts(reading: Reading, found: dict):
    parts = []
    for name in SET_UP:
        if script := _script(reading, name, found.get(name)):
            parts.append(f"# {name}\n{script}\n")
            sentence = "Part of the setup script, which runs once, in this order. Each command has a shell of its own."
            reading.taken.append((name, sentence))
    if parts:
        text = "".join(parts)
        if below := reading.fields.get("working_directory"):  # the setup script starts at /workspace
            text = f"(\ncd {shlex.quote(f'/workspace/{below}')} || exit\n{text}) || exit\n"
        reading.fields["setup"] = text
    if script := _script(reading, "postStartCommand", found.get("postStartCommand")):
        sentence = "The maintenance script: it runs each time a workspace resumes, not at its first start."
        reading.take("postStartCommand", sentence, maintenance=f"{script}\n")


def _script(reading: Reading, name: str, value) -> str:
    """Return a command as lines of a shell script that end it when the command fails.

    A string is one for a shell of its own, a list is run without one, and those of an object run at the same time.
    """
    if not isinstance(value, dict):
        command = _command(reading, name, value)
        return f"{command} || exit" if command else ""
    commands = [(key, _command(reading, f"{name}.{key}", part)) for key, part in value.items()]
    lines = [f'# {_one_line(key)}\n{command} & started="$started $!"' for key, command in commands if command]
    if not lines:
        return ""
    waits = 'failed=0; for one in $started; do wait "$one" || failed=$?; done; [ "$failed" = 0 ] || exit "$failed"'
    return "\n".join(["started=", *lines, waits])


def _one_line(key: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in key)[:80]


def _command(reading: Reading, name: str, value) -> str:
    if value in EMPTY and not isinstance(value, bool):
        return ""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = [_filled(reading, name, word) for word in value]
        return "" if None in words else f"(exec {shlex.join(words)})"
    if isinstance(value, str):
        text = _filled(reading, name, value.strip())
        return f"sh -c {shlex.quote(text)}" if text else ""
    reading.refuse(name, "A command is a string, a list of strings, or an object of these.")
    return ""


def _filled(reading: Reading, name: str, text: str) -> str | None:
    """Return the text with the format's variables filled in; refuse it and return None if one has no value here."""
    folder = f"/workspace/{reading.fields.get('working_directory', '')}".rstrip("/")
    text = FOLDER.sub(lambda found: folder.rpartition("/")[2] if found[1] else folder, text)
    text = DEFAULT.sub(r"\1", text)  # no variable of the host is ever set here
    if unknown := OF_HOST.search(text):
        reading.refuse(name, f"{unknown[0][:100]} is not known here; write the value out.")
    elif unknown := OF_CONTAINER.search(text):
        reading.refuse(name, f"{unknown[0]} would be one value for all workspaces of the environment; write one out.")
    elif "\0" in text:
        reading.refuse(name, "It contains a NUL character.")
    else:
        return text
    return None


def _object(reading: Reading, found: dict, name: str) -> dict:
    """Return an object of the file; {} if it has none, or, which is refused, something else."""
    value = found.get(name)
    if isinstance(value, dict):
        return value
    if value is not None:
        reading.refuse(name, "It must be an object.")
    return {}


def _variables(reading: Reading, found: dict):
    variables = {}
    for where in ENVIRONMENT:
        for name, value in _object(reading, found, where).items():
            said = f"{where}.{name[:80]}"
            if value is None:
                reading.refuse(said, "Variables of the image can't be removed.")
            elif (text := _text_of(value)) is None:
                reading.refuse(said, "A value is a text, a number, true or false.")
            elif (filled := _filled(reading, said, text)) is not None:
                variables[name] = filled
                reading.taken.append((said, "A variable of every program, in setup too."))
    if variables:
        reading.fields["variables"] = variables


def _text_of(value) -> str | None:
    """Return a string, number or boolean as JavaScript writes it, in which the format was made; None for others."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | float) and math.isfinite(value):
        return canonical.dumps(value).decode()
    return str(value) if isinstance(value, int) else None


def _folder(reading: Reading, found: dict):
    folder = found.get("workspaceFolder")
    if not isinstance(folder, str):
        return
    match = DEFAULT_FOLDER.fullmatch(folder.rstrip("/")) or re.fullmatch(r"/workspace(?:/(?P<below>.*))?", folder)
    if match is None or "$" in (match["below"] or ""):
        reading.refuse("workspaceFolder", "The repository is always at /workspace.")
    elif match["below"]:
        reading.take(
            "workspaceFolder", "Commands, services and terminals start there.", working_directory=match["below"]
        )
    else:
        reading.without_effect.append(("workspaceFolder", "The repository is always at /workspace."))


def _limits(reading: Reading, found: dict):
    wanted = _object(reading, found, "hostRequirements")
    limits = {}
    for name, value in wanted.items():
        said = f"hostRequirements.{name[:80]}"
        if value in EMPTY:
            continue
        if name == "cpus":
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
                limits["cpus"] = value
            else:
                reading.refuse(said, 'Write a number, such as "cpus": 4.')
        elif name in SIZES:
            match = SIZE.fullmatch(value) if isinstance(value, str) else None
            if match and int(match[1]):
                limits[SIZES[name]] = int(match[1]) * UNITS[(match[2] or "").lower()]
            else:
                reading.refuse(said, f'Write a whole number with kb, mb, gb or tb, such as "{name}": "8gb".')
        elif name == "gpu" and value == "optional":
            reading.without_effect.append((said, "Workspaces have no graphics processor."))
        elif name == "gpu":
            reading.refuse(said, "Workspaces have no graphics processor.")
        else:
            reading.refuse(said, "Handrail does not know this property.")
    if limits:
        reading.take("hostRequirements", "Its minimum is the limit of each workspace.", limits=limits)


def _secrets(reading: Reading, found: dict):
    if named := list(_object(reading, found, "secrets")):
        sentence = "Given to the agent by name. Set their values under Environments › Secrets."
        reading.take("secrets", sentence, secrets={"agent": named})
