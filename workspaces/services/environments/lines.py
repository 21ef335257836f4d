"""Lines of text for fields of an environment that hold several values, as its form and its page show them."""

import re

from dashboard.problems import invalid

CHECK_NAME = re.compile(r"[\w][\w .:/-]{0,79}")


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
        checks[name] = command
    return checks


def write_checks(checks: dict[str, str]) -> str:
    return "".join(f"{name} = {command}\n" for name, command in checks.items())


def read_secrets(setup: str, agent: str) -> dict[str, list[str]]:
    """Parse names of secrets to {phase: [name…]}."""
    return {"setup": setup.replace(",", " ").split(), "agent": agent.replace(",", " ").split()}


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
