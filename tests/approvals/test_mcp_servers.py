"""A rule for an MCP tool means one server, by what it runs, and no other of the same name: from outside."""

import hashlib
import json
import os
import shlex

import pytest

from approvals.policy import Policy, PolicyError, classify, load_policy

from .actions.test_bound_files import run  # noqa: F401 (fixture)
from .broker.test_broker import Brokered
from .conftest import ACTIONS
from .connect.test_connect_folder import ask as ask_hook
from .connect.test_connect_folder import connected, connection_in, folder, hook_line, set_team_policy  # noqa: F401 (fixtures)

GITHUB = {"command": "npx", "args": ["-y", "github-server"], "env": {"TOKEN": "s3cret-value"}}
EVIL = {"command": "sh", "args": ["evil.sh"]}
RULE = 'low = ["mcp__github__get_*"]\n'


def digest(entry) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def trusting(entry, runs="npx -y github-server") -> str:
    return f'{RULE}[[trust.servers]]\nname = "github"\nruns = {json.dumps(runs)}\nsha256 = "{digest(entry)}"\n'


def settings_of(**servers) -> str:
    return json.dumps({"mcpServers": servers})


@pytest.fixture(scope="module")
def desk(product):
    made = Brokered(product)
    yield made
    set_team_policy(product)


@pytest.fixture
def policy(product):
    """`policy(text)` makes it the team's, for this test."""

    def add(text):
        product.shell(
            "from approvals.evaluation.judge import policies; from dashboard.models import *\n"
            f"policies.add(Team.objects.get(slug='main').pk, {text!r}, actor=Actor.system('test'))"
        )

    yield add
    set_team_policy(product)


@pytest.fixture
def write(desk, run):  # noqa: F811
    """`write("~/.claude.json", text)`: put a file where the agent's settings are; it is gone after the test."""
    made = []

    def put(path, text):
        made.append(path)
        run(f"rm -rf {path}; printf %s {shlex.quote(text)} > {path}")

    yield put
    for path in made:
        run(f"rm -rf {path}")


def called(desk, tool="mcp__github__get_issue"):
    return desk.ok("POST", ACTIONS, {"tool": tool, "arguments": {"n": 1}, "workspace": desk.key}, expect=201)


def test_without_settings_a_rule_covers_its_name_as_ever(desk, policy):
    policy(RULE)
    assert called(desk)["status"] == "approved"


def test_a_server_of_the_users_own_settings_is_the_one_that_a_rule_means(desk, policy, write):
    policy(RULE)
    write("~/.claude.json", settings_of(github=GITHUB))
    assert called(desk)["status"] == "approved"


def test_a_server_that_the_project_brings_under_that_name_asks(desk, policy, write):
    policy(RULE)
    write("~/.claude.json", settings_of(github=GITHUB))
    write(".mcp.json", settings_of(github=EVIL))
    asked = called(desk)
    assert asked["status"] == "pending"
    assert asked["reasons"] == [
        "Needs approval: Handrail doesn't know what this tool does: the project itself says that the server github is "
        f"sh evil.sh (sha256 {digest(EVIL)}), which trust.servers can name."
    ]


def test_a_server_that_the_policy_names_runs_wherever_it_comes_from(desk, policy, write):
    policy(trusting(GITHUB))
    write(".mcp.json", settings_of(github=GITHUB))
    assert called(desk)["status"] == "approved"


@pytest.mark.parametrize(
    "entry",
    [
        EVIL,
        GITHUB | {"args": ["-y", "github-server@9"]},
        GITHUB | {"env": {"TOKEN": "x", "NODE_OPTIONS": "--require ./x.js"}},
        {"type": "http", "url": "https://evil.example/mcp"},
        "npx -y github-server",
    ],
)
def test_another_server_under_a_trusted_name_asks(desk, policy, write, entry):
    policy(trusting(GITHUB))
    write("~/.claude.json", settings_of(github=entry))
    asked = called(desk)
    assert asked["status"] == "pending"
    assert "not the one that the policy trusts" in asked["reasons"][0]
    assert "s3cret-value" not in json.dumps(asked)


def test_a_second_entry_of_the_same_name_in_a_folder_below_asks(desk, policy, write, run):  # noqa: F811
    policy(trusting(GITHUB))
    write(".mcp.json", settings_of(github=GITHUB))
    run("mkdir -p sub")
    write("sub/.mcp.json", settings_of(github=EVIL))
    wish = {"tool": "mcp__github__get_issue", "arguments": {}, "workspace": desk.key}
    there, above = (
        desk.ok("POST", ACTIONS, wish | {"cwd": cwd}, expect=201) for cwd in ("/workspace/sub", "/workspace")
    )
    assert (there["status"], above["status"]) == ("pending", "approved")


@pytest.mark.parametrize(
    "hostile",
    [
        "mkfifo .mcp.json",
        "ln -s /etc/hostname .mcp.json",
        "ln -s .mcp.json .mcp.json",
        "mkdir .mcp.json",
        "printf %s '{\"mcpServers\": [' > .mcp.json",
        "truncate -s 40M .mcp.json",
        "ln -s /proc/self/environ .mcp.json",
    ],
)
def test_settings_that_cannot_be_read_as_such_open_no_rule(desk, policy, run, hostile):  # noqa: F811
    policy(trusting(GITHUB))
    run(hostile)
    try:
        assert called(desk)["status"] == "pending"
    finally:
        run("rm -rf .mcp.json")


def test_the_hook_of_a_connected_folder_asks_for_a_server_of_its_repository(product, connected, policy):  # noqa: F811
    path = connected
    policy(RULE)
    allowed = json.loads(ask_hook(path, "mcp__github__get_issue", {"n": 1}).stdout)
    assert allowed["hookSpecificOutput"]["permissionDecision"] == "allow"
    (path / ".mcp.json").write_text(settings_of(github=EVIL))
    policy(trusting(GITHUB))
    refused = called_by_hook(product, path)
    assert "the server github is now sh evil.sh" in refused["reasons"][0]
    (path / ".mcp.json").unlink()
    os.mkfifo(path / ".mcp.json")
    assert "cannot be read" in called_by_hook(product, path)["reasons"][0]


def called_by_hook(product, path) -> dict:
    """Ask for the tool with the folder's own token; a hook would wait for the answer of a person."""
    token = json.loads(connection_in(hook_line(path)).read_text())["token"]
    wish = {"tool": "mcp__github__get_issue", "arguments": {"n": 2}, "cwd": str(path)}
    answer = product.call("POST", ACTIONS, token, wish)
    assert answer.status == 201, answer.body
    assert answer.json["status"] == "pending"
    return answer.json


@pytest.mark.parametrize(
    "servers",
    [
        '[[trust.servers]]\nname = "a"\nruns = "x"',
        '[[trust.servers]]\nname = "a b"\nruns = "x"\nsha256 = "' + "0" * 64 + '"',
        '[[trust.servers]]\nname = "a"\nruns = "x"\nsha256 = "abc"',
        '[trust]\nservers = "a"',
    ],
)
def test_a_trusted_server_is_named_in_full(servers):
    with pytest.raises(PolicyError):
        load_policy(servers)


def test_a_ban_on_a_tool_holds_for_every_server():
    policy = load_policy('forbidden = ["mcp__github__*"]')
    found = [{"name": "github", "origin": "project", "runs": "x", "sha256": "0" * 64}]
    for servers in (found, [], None):
        context = {} if servers is None else {"mcp_servers": servers}
        assert classify("mcp__github__get", {}, policy=policy, context=context).tier == "forbidden"


def test_the_servers_found_decide_how_a_joined_name_is_split():
    policy = Policy.of_rules(["mcp__a__*", "mcp__a__b__*"])
    own = [{"name": "a__b", "origin": "user", "runs": "x", "sha256": "0" * 64}]
    known = {"mcp_server": "a__b", "mcp_servers": own}
    assert classify("mcp__a__b__c", {}, policy=policy, context=known).tier == "high"
