"""The MCP project's own client and server, with the gate between them: both generations of the protocol, both ways."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.frameworks.conftest import frameworks  # noqa: F401 (fixture)
from tests.support.waiting import until

HERE = Path(__file__).parent
NEWEST, WITH_GREETING = "2026-07-28", "2025-11-25"
WAYS = [(mode, way) for mode in ("auto", "legacy") for way in ("pipes", "http")]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.fixture(params=WAYS, ids="-".join)
def way(request) -> tuple[str, str]:
    return request.param


@pytest.fixture
def version(way) -> str:
    return NEWEST if way[0] == "auto" else WITH_GREETING


@pytest.fixture
def words(frameworks, command, environment, tmp_path, way):  # noqa: F811
    """The words by which a client reaches the SDK's server behind a gate: a command, or an address."""
    made = []

    def start(*words: str) -> subprocess.Popen:
        made.append(subprocess.Popen(words, env=environment, cwd=tmp_path, **PIPES))
        return made[-1]

    gate = [sys.executable, *command[1:], "mcp-gate", "--name", "sdk", "--grace", "0.5"]
    server = [frameworks, "-W", "ignore", str(HERE / "sdk_server.py")]
    if way[1] == "pipes":
        yield [*gate, "--", *server]
    else:
        port = start(*server, "http").stdout.readline().strip()
        yield start(*gate, "--http", f"http://127.0.0.1:{port}/mcp").stderr.readline().split()[-1:]
    for process in reversed(made):
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def started(frameworks, words, environment, tmp_path, way):  # noqa: F811
    """`started("note", {…})`: the SDK's client calls a tool through the gate."""

    def start(tool: str = "note", arguments: dict | None = None) -> subprocess.Popen:
        asked = json.dumps({"command": "sdk"} if arguments is None else arguments)
        program = [frameworks, str(HERE / "sdk_program.py"), way[0], tool, asked, *words]
        return subprocess.Popen(program, env=environment, cwd=tmp_path, **PIPES)

    return start


def said(client: subprocess.Popen) -> tuple[list[str], str]:
    """What the client printed, by lines, and what it told of."""
    lines, told = client.communicate(timeout=120)
    return lines.splitlines(), told


def test_a_call_is_approved_after_its_progress_was_told(started, person, name, ran, version):
    client = started()
    asked = person.sees(name)
    assert asked["tool"] == "mcp__sdk__note"
    person.decides(asked, "approve")
    lines, told = said(client)
    assert (lines, ran()) == ([f"{version} False", "noted sdk"], ["sdk"]), told
    assert asked["id"] in told


def test_a_denial_is_a_result_with_the_words_of_the_person(started, person, name, ran, version):
    client = started()
    person.decides(person.sees(name), "deny", comment="Not this one.")
    lines, told = said(client)
    assert lines[:1] == [f"{version} True"], told
    assert "Not this one." in lines[1]
    assert ran() == []


def test_nothing_runs_with_a_wrong_token(request, environment, ran, version):
    environment["HANDRAIL_TOKEN"] = "hr_wrong"
    lines, told = said(request.getfixturevalue("started")())
    assert lines[:1] == [f"{version} True"], told
    assert "this call was not made" in lines[1]
    assert ran() == []


def test_a_call_whose_tool_asks_its_user_is_one_action_with_its_edit(started, person, name, ran, product, version):
    client = started("ship")
    asked = person.sees(name)
    person.decides(asked, "edit", arguments={"command": "edited"})
    lines, told = said(client)
    assert lines[:1] == [f"{version} False"], told
    assert lines[1].startswith("Note: a person edited this call before it ran")
    assert (lines[-1], ran()) == ("noted edited because tests", ["edited because tests"])
    assert "Why edited?" in told
    until(lambda: person.status(asked) == "succeeded")
    assert len([row for row in person.actions() if row["agent"] == name]) == 1


def test_an_edit_of_an_argument_that_stands_in_a_header_reaches_the_server(started, person, name, ran, version):
    client = started("send", {"region": "eu", "amount": 1.5})
    asked = person.sees(name)
    person.decides(asked, "edit", arguments={"region": "Zürich ", "amount": 1.5})
    lines, told = said(client)
    assert lines[:1] == [f"{version} False"], told
    assert ran() == ["Zürich  1.5"]
    until(lambda: person.status(asked) == "succeeded")


def test_a_grant_does_not_cover_a_tool_that_is_described_otherwise(started, person, product, name, tmp_path, ran):
    first = started()
    asked = person.sees(name)
    scopes = product.get(f"/api/v1/actions/{asked['id']}/scopes", person.token).json["scopes"]
    [covers] = [each["name"] for each in scopes if "with any arguments" in each["label"]]
    grant = product.post(
        f"/api/v1/actions/{asked['id']}/grant", person.token, {"digest": asked["digest"], "covers": covers}
    )
    assert grant.status == 201, grant.text
    assert said(first)[0][1] == "noted sdk"
    assert said(started())[0][1] == "noted sdk"
    (tmp_path / "description").write_text("Add a line, and tell all customers.")
    changed = started()
    asked = person.sees(name)
    person.decides(asked, "deny")
    said(changed)
    assert ran() == ["sdk", "sdk"]
