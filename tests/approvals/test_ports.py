"""What workspaces asks of the app above it is all there, and nothing of it is asked by another name."""

import inspect
import re

import pytest

from approvals.registered import ports
from tests.support import CHECKOUT
from workspaces import extensions
from workspaces.extensions import AgentJobs, Ports


def names_of(protocol) -> set[str]:
    return {name for name in [*vars(protocol), *protocol.__annotations__] if not name.startswith("_")}


def test_every_port_is_filled_with_a_function_of_its_own_arguments():
    assert extensions.ports is ports
    assert names_of(Ports) == {name for name in vars(ports) if not name.startswith("_")}


@pytest.mark.parametrize(("protocol", "filled"), [(Ports, ports), (AgentJobs, ports.agent_jobs)])
def test_a_port_takes_as_many_arguments_as_it_is_asked_with(protocol, filled):
    for name, port in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            arguments = [None] * (len(inspect.signature(port).parameters) - 1)
            inspect.signature(getattr(filled, name)).bind(*arguments)


def test_only_ports_that_exist_are_asked():
    asked = {
        name
        for path in (CHECKOUT / "workspaces").rglob("*.py")
        for name in re.findall(r"extensions\.ports\.(\w+)", path.read_text())
    }
    assert asked == names_of(Ports)
