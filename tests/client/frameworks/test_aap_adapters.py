"""CrewAI and Google's ADK with the adapters of the Agent Approval Protocol, unmodified: people decide their calls."""

import os
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from tests.support.waiting import until

STARTING = 300  # seconds: CrewAI alone imports for six of a processor
HOME = Path(os.environ.get("HANDRAIL_TEST_AAP_FRAMEWORKS") or CHECKOUT / ".venv-aap-frameworks")


@pytest.fixture(params=["crewai", "adk"])
def framework(request) -> str:
    return request.param


@pytest.fixture
def frameworks(framework, require) -> str:
    """The Python interpreter in which the framework is installed."""
    python = HOME / framework / "bin" / "python"
    if not python.exists():
        require("aap-frameworks", "there is no .venv-aap-frameworks; `deploy/aap_frameworks.sh` makes it")
    return str(python)


@pytest.fixture
def started(framework, begin):
    """`started()`: the program, beside the test: it waits for people."""
    return lambda **more: begin(f"{framework}_program", **more)


def command_of(person, action: dict) -> str:
    return person.product.get(f"/api/v1/actions/{action['id']}", person.token).json["arguments"]["command"]


def test_what_is_approved_runs_once_and_a_denial_is_read(started, person, name, tmp_path, ran):
    (tmp_path / "calls").write_text("sudo one\nsudo two\n")
    program = started()
    first = until(lambda: person.of(name), within=STARTING)[0]  # both at once, or one after the other
    assert ran() == []
    person.decides(first, "approve")
    second = until(lambda: next((row for row in person.of(name) if row["id"] != first["id"]), None), within=STARTING)
    person.decides(second, "deny", comment="It is in use.")
    out, err = program.communicate(timeout=STARTING)
    assert program.returncode == 0, err
    assert ran() == [command_of(person, first)]
    assert "It is in use." in out
    assert (person.status(first), person.status(second)) == ("succeeded", "denied")


def test_nothing_runs_when_no_desk_answers(started, line, tmp_path, ran):
    (tmp_path / "calls").write_text("sudo one\n")
    line.cut("500")
    program = started(HANDRAIL_URL=line.url)
    program.communicate(timeout=STARTING)
    assert (line.answered >= 1, ran()) == (True, [])
