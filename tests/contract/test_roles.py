"""Every operation of the OpenAPI document with every caller: a new route is covered unasked.

What a caller may not see is 404, what it may not do is 403, and neither leaves a trace.
"""

import functools
import json

import pytest

from dashboard.access import MATRIX, ROLES
from dashboard.api import api

VIEWER, REVIEWER, LEAD, ADMIN = (role.value for role in ROLES)
AGENT, OTHER_AGENT = "agent", "other-agent"
# The verb of access.MATRIX that each operation needs. One that is not named is held to the rules for all of them.
VERBS = {
    "POST /workspaces": "create_workspace",
    "DELETE /workspaces/{key}": "delete_workspace",
    "POST /workspaces/{key}/untrash": "delete_workspace",
    "POST /workspaces/{key}/reset": "restore",
    "POST /workspaces/{key}/snapshots/{n}/restore": "restore",
    "POST /workspaces/{key}/fork": "create_workspace",
    "POST /workspaces/{key}/terminals": "type_in_terminal",
    "POST /environments": "manage_environments",
    "PATCH /workspaces/{key}": "manage_agents",
    "POST /workspaces/{key}/network/allow": "allow_host",
    "DELETE /workspaces/{key}/network/allowances/{id}": "allow_host",
    "DELETE /workspaces/{key}/network/ports/{port}": "use_workspace",
    "POST /actions": "submit",
    "POST /actions/{action_id}/consume": "consume",
    "POST /actions/{action_id}/decision": "decide",
    "POST /actions/{action_id}/grant": "decide",
    "POST /actions/{action_id}/let-read": "decide",
    "POST /actions/{action_id}/tell": "decide",
    "POST /actions/{action_id}/interrupt": "decide",
    "POST /actions/{action_id}/go-on": "decide",
    "POST /messages/{message_id}/read": "consume",
    "POST /grants/{grant_id}/revoke": "decide",
    "POST /stop": "stop_everything",
    "POST /stop/lift": "lift_stop",
    "POST /storage/{work}": "manage_retention",
    "POST /storage/{work}/stop": "manage_retention",
}
PEOPLE_ALONE = {
    "GET /storage",
    "GET /workspaces/{key}/blame/{path}",
    "GET /workspaces/{key}/file-history/{path}",
}
OF_THE_TEAM = ("/storage/",)  # addresses that name a kind of work of the caller's own team, nothing of somebody's
# A person settles what is unclear, an agent tells how its own action ended; a person takes back as a decider, and tries
# a command as one, where an agent may try its own.
BY_STATE = {f"POST /actions/{{action_id}}/{verb}" for verb in ("outcome", "cancel", "rehearse", "let-read", "messages")}
OF_WHAT_IS_NOT_THERE = {"POST /workspaces/{key}/untrash"}  # nothing is in the trash here


@functools.cache
def operations() -> dict[str, dict]:
    """{"POST /actions": the operation}, as the document has them."""
    schema = api.get_openapi_schema()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def sample(schema: dict):
    """A value that the schema takes: as small as can be."""
    schema = _resolved(schema)
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: sample(properties[name]) for name in schema.get("required", [])}
    if kind == "string":
        return "0" * 64 if "{64}" in schema.get("pattern", "") else "walked"
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": False, "array": [], "null": None}[kind]


def _resolved(schema: dict) -> dict:
    if "$ref" in schema:
        return api.get_openapi_schema()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for some in ("anyOf", "oneOf", "allOf"):
        if some in schema:
            return _resolved(schema[some][0])
    return schema


def body_of(operation: dict):
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return sample(content["schema"]) if content else None


@pytest.fixture(scope="module")
def things(agent, place, everybody) -> dict[str, str]:
    """One of each thing that an address may name; all belong to the agent."""
    command = agent.post(f"/workspaces/{place}/commands", {"command": "true"}, 201).json
    agent.finished(command["id"])
    action = agent.post("/actions", {"tool": "Bash", "arguments": {"command": "git push"}}, 201).json
    liked = agent.post("/actions", {"tool": "Bash", "arguments": {"command": "git push origin liked"}}, 201).json
    grant = everybody["contract reviewer"].post(f"/actions/{liked['id']}/grant", {"digest": liked["digest"]}, 201).json
    asked = {"tool": "Bash", "arguments": {"command": "git push origin told"}, "session": "walked"}
    told = agent.post("/actions", asked, 201).json
    message = everybody["contract reviewer"].post(f"/actions/{told['id']}/tell", {"text": "Wait."}, 201).json
    return {
        "message_id": message["id"],
        "grant_id": grant["id"],
        "key": place,
        "path": "hello.txt",
        "id": command["id"],
        "n": "1",
        "port": "3000",
        "action_id": action["id"],
        "work": "check",
        "operation_id": agent.get(f"/workspaces/{place}/operations").json["operations"][0]["id"],
    }


@pytest.fixture(scope="module")
def elsewhere(agent) -> str:
    """A token of the agent's other workspace, as its programs have."""
    key = agent.workspace()
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.tokens import make_token; from workspaces.models import Workspace;"
            f"found = Workspace.objects.get(key='{key}');"
            "print(json.dumps(make_token(found.team, agent=found.created_by_agent, workspace=found, for_run=True)))"
        )
    )


@pytest.fixture(scope="module")
def knock(everybody, things):
    """`knock("GET /me", "contract lead")`: the answer of that operation to that caller."""

    def on(name: str, who: str, token: str | None = None):
        method, path = name.split(" ", 1)
        operation = operations()[name]
        for parameter, value in things.items():
            path = path.replace(f"{{{parameter}}}", value)
        required = [p for p in operation.get("parameters", []) if p["in"] == "query" and p.get("required")]
        query = "&".join(f"{p['name']}=1" for p in required)
        body = body_of(operation)
        if method in ("POST", "PUT") and body is None:
            body = b"" if method == "PUT" else {}
        client = everybody["contract agent"]
        token = everybody[who].token if token is None else token
        return client.product.call(method, f"/api/v1{path}?{query}", token, body)

    return on


@pytest.fixture(scope="module")
def traces(agent, things):
    """What a walk could have changed."""

    def of() -> str:
        key = things["key"]
        workspace = agent.get(f"/workspaces/{key}").json
        for measured in ("last_active_at", "vitals"):
            workspace.pop(measured, None)
        seen = [
            workspace,
            agent.get(f"/actions/{things['action_id']}").json,
            agent.get(f"/workspaces/{key}/snapshots").json,
            agent.get(f"/workspaces/{key}/commands").json,
            agent.get(f"/workspaces/{key}/terminals").json,
            agent.get(f"/workspaces/{key}/files/hello.txt").text,
        ]
        return json.dumps(seen)

    return of


def may(name: str, role: str) -> bool:
    """As access.MATRIX has it."""
    method = name.split()[0]
    least, agents_may = MATRIX[VERBS.get(name, "read" if method == "GET" else "use_workspace")]
    if role in (AGENT, OTHER_AGENT):
        return agents_may and name not in PEOPLE_ALONE
    return least is not None and ROLES.index(role) >= ROLES.index(least)


@pytest.mark.parametrize("name", sorted(operations()))
def test_without_a_token_nobody_comes_in(knock, name):
    for token in ("", "hr_wrong"):
        answer = knock(name, "", token)
        assert (answer.status, answer.json["status"]) == (401, 401)


@pytest.mark.parametrize(
    "name", sorted(n for n in operations() if "{" in n and not n.split()[1].startswith(OF_THE_TEAM))
)
def test_what_another_team_or_agent_owns_is_404(knock, traces, name, elsewhere):
    before = traces()
    strangers = ("strangers admin", "strangers viewer", "strangers agent", "contract other-agent")
    assert {who: knock(name, who).status for who in strangers} == dict.fromkeys(strangers, 404)
    # What programs in another workspace of the same agent have is a stranger here as well; grants are for people.
    assert knock(name, "", elsewhere).status in ((403, 404) if "{grant_id}" in name else (404,))
    assert traces() == before


@pytest.mark.parametrize("name", sorted(name for name in operations() if "{" not in name and name.startswith("GET")))
def test_no_list_tells_strangers_anything(knock, things, name):
    for who in ("strangers admin", "strangers agent", "contract other-agent"):
        answer = knock(name, who)
        assert answer.status == (403 if name in PEOPLE_ALONE and who.endswith("agent") else 200)
        for thing in ("key", "id", "action_id"):
            assert things[thing] not in answer.text


@pytest.mark.parametrize("name", sorted(name for name in operations() if name not in BY_STATE))
def test_each_role_does_what_the_matrix_says(knock, traces, name):
    """What changes something and is allowed is done for real, row by row, in the other files."""
    before = traces()
    reads = name.startswith("GET")
    walked = [role for role in (VIEWER, REVIEWER, LEAD, ADMIN, AGENT) if reads or not may(name, role)]
    refused = 404 if name in OF_WHAT_IS_NOT_THERE else 403
    expected = {role: 200 if may(name, role) else refused for role in walked}
    assert {role: knock(name, f"contract {role}").status for role in walked} == expected
    assert reads or traces() == before


def test_every_operation_answers_problems_as_the_contract_says():
    for name, operation in operations().items():
        for status in (401, 404, 422):
            schema = operation["responses"][status]["content"]["application/problem+json"]["schema"]
            assert schema["$ref"].endswith("ProblemBody"), name
