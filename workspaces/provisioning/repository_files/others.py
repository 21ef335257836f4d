"""Read what other products' files in a repository say about its set-up."""

import json5
import yaml

from dashboard.problems import Problem
from dashboard.text import shallow_yaml
from workspaces.provisioning import devcontainer
from workspaces.provisioning.repository_files.suggestion import Suggestion

JOB = "copilot-setup-steps"
MAX_STEPS = 100
NOT_TAKEN = "is not taken"


def read_devcontainer(path: str, data: bytes) -> Suggestion:
    found = Suggestion(path, "Dev container")
    try:
        reading = devcontainer.read(data.decode("utf-8", "replace"))
    except Problem as problem:
        found.errors.append(problem.detail)
        return found
    for name in ("setup", "maintenance"):
        if name in reading.fields:
            found.take_script(name, reading.fields[name])
    kept = ("variables", "working_directory")
    found.fields |= {name: reading.fields[name] for name in kept if reading.fields.get(name)}
    if image := reading.fields.get("image"):
        found.notes.append(f"image: {image} is for containers. Its own environment can be made from this file.")
    found.notes += [f"{name}: {sentence}" for name, sentence in reading.refused]
    return found


def read_cursor(path: str, data: bytes) -> Suggestion:
    found = Suggestion(path, "Cursor")
    told = _json(found, data)
    _scripts(found, told, {"install": "setup", "start": "maintenance"})
    if isinstance(terminals := told.pop("terminals", None), list):
        found.notes += [f"terminals: {_command_of(each)} can be a service of the environment." for each in terminals]
    found.notes += [f"{name[:80]} {NOT_TAKEN}." for name in told]
    return found


def read_conductor(path: str, data: bytes) -> Suggestion:
    found = Suggestion(path, "Conductor")
    told = _json(found, data)
    scripts = told.pop("scripts", {})
    if not isinstance(scripts, dict):
        found.errors.append("scripts is no object.")
        return found
    _scripts(found, scripts, {"setup": "setup"})
    if isinstance(scripts.pop("run", None), str):
        found.notes.append("run can be a service or a check of the environment.")
    found.notes += [f"{name[:80]} {NOT_TAKEN}." for name in [*scripts, *told]]
    return found


def read_copilot(path: str, data: bytes) -> Suggestion:
    """Read the steps that run a script; those that use an action have no counterpart and are named."""
    found = Suggestion(path, "Copilot")
    try:
        steps = yaml.load(data, shallow_yaml.Loader)["jobs"][JOB]["steps"]
        if not isinstance(steps, list) or len(steps) > MAX_STEPS:
            raise ValueError("no list of steps")
    except (yaml.YAMLError, ValueError, KeyError, TypeError, RecursionError):
        found.errors.append(f"It has no list of steps in jobs.{JOB} that can be read.")
        return found
    scripts = []
    for step in steps:
        script = step.get("run") if isinstance(step, dict) else None
        if isinstance(script, str) and "${{" not in script:
            scripts.append(script.strip())
        else:
            found.notes.append(f"The step {_name_of(step)} {NOT_TAKEN}: only plain scripts are.")
    found.take_script("setup", "\n".join(scripts))
    return found


def _json(found: Suggestion, data: bytes) -> dict:
    try:
        told = json5.loads(data.decode(), allow_duplicate_keys=False)
    except (ValueError, RecursionError) as error:
        found.errors.append(f"It is not JSON: {str(error)[:200]}")
        return {}
    if not isinstance(told, dict):
        found.errors.append("It must be an object.")
        return {}
    return told


def _scripts(found: Suggestion, told: dict, names: dict[str, str]):
    """Take scripts out of `told`; names: {name there: column of an environment}."""
    for name, column in names.items():
        value = told.pop(name, None)
        if isinstance(value, str):
            found.take_script(column, value)
        elif value is not None:
            found.errors.append(f"{name} is no text.")


def _command_of(terminal) -> str:
    command = terminal.get("command") if isinstance(terminal, dict) else None
    return command[:200] if isinstance(command, str) else "one without a command"


def _name_of(step) -> str:
    told = step if isinstance(step, dict) else {}
    name = told.get("name") or told.get("uses") or "without a name"
    return str(name)[:100] if isinstance(name, str) else "without a name"
