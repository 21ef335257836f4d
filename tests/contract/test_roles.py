"""Every operation of the OpenAPI document with every caller: a new route is covered unasked.

What a caller may not see is 404, what it may not do is 403, and neither leaves a trace.
"""

import json
import uuid

import pytest

from dashboard.people.access import MATRIX, ROLES
from tests.support.every_operation import body_of, names, operations
from tests.support.pictures import png

VIEWER, REVIEWER, LEAD, ADMIN = (role.value for role in ROLES)
AGENT, OTHER_AGENT = "agent", "other-agent"
# The verb of access.MATRIX that each operation needs. One that is not named is held to the rules for all of them.
VERBS = {
    "POST /workspaces": "create_workspace",
    "POST /workspaces/{key}/agents": "manage_agents",
    "DELETE /workspaces/{key}/agents/{agent}": "manage_agents",
    "POST /workspaces/{key}/artifacts": "keep_artifact",
    "DELETE /artifacts/{artifact_id}": "delete_artifact",
    "POST /workspaces/{key}/checkpoints": "keep_checkpoint",
    "POST /checkpoints/{checkpoint_id}/restore": "restore",
    "POST /checkpoints/{checkpoint_id}/fork": "create_workspace",
    "DELETE /checkpoints/{checkpoint_id}": "delete_checkpoint",
    "POST /commands/{id}/output/query": "read",
    "POST /workspaces/{key}/query": "read",
    "POST /workspaces/{key}/snapshots/{n}/folder": "read",
    "DELETE /workspaces/{key}/snapshots/{n}/folder": "read",
    "POST /workspaces/{key}/snapshots/{n}/screenshot": "keep_screenshot",
    "DELETE /workspaces/{key}/snapshots/{n}/screenshot": "keep_screenshot",
    "DELETE /workspaces/{key}": "delete_workspace",
    "POST /workspaces/{key}/untrash": "delete_workspace",
    "POST /workspaces/{key}/reset": "restore",
    "POST /workspaces/{key}/snapshots/{n}/restore": "restore",
    "POST /workspaces/{key}/fork": "create_workspace",
    "POST /workspaces/{key}/move": "move_workspace",
    "POST /workspaces/{key}/returned": "move_workspace",
    "GET /hosts": "read_hosts",
    "POST /hosts/{host}/drain": "manage_hosts",
    "POST /hosts/{host}/undrain": "manage_hosts",
    "POST /hosts/{host}/lost": "manage_hosts",
    "POST /workspaces/{key}/terminals": "type_in_terminal",
    "PUT /workspaces/{key}/terminals/{id}/share": "share_terminal",
    "POST /environments": "manage_environments",
    "PATCH /workspaces/{key}": "describe_workspace",
    "POST /workspaces/{key}/network/allow": "allow_host",
    "DELETE /workspaces/{key}/network/allowances/{id}": "allow_host",
    "DELETE /workspaces/{key}/network/ports/{port}": "use_workspace",
    "POST /workspaces/{key}/previews": "preview",
    "POST /environments/devcontainer": "manage_environments",
    "POST /workspaces/{key}/installed": "manage_environments",
    "POST /environments/{name}/installed/undo": "manage_environments",
    "POST /environments/{name}/image/pull": "manage_environments",
    "POST /workspaces/{key}/lessons": "propose_lesson",
    "POST /workspaces/{key}/hand-overs": "hand_over",
    "POST /lessons/{lesson_id}/accept": "decide_lesson",
    "POST /lessons/{lesson_id}/decline": "decide_lesson",
    "DELETE /lessons/{lesson_id}": "decide_lesson",
    "POST /definitions": "write_definitions",
    "POST /definitions/import": "write_definitions",
    "POST /agent-programs/{agent_program}/install": "manage_environments",
    "POST /agent-programs/{agent_program}/trials": "start_agents",
    "POST /agent-programs/{agent_program}/try-key": "manage_secrets",
    "POST /workspaces/{key}/rebase": "use_workspace",
    "POST /tasks": "start_agents",
    "POST /tasks/{task_id}/choose": "start_agents",
    "POST /tasks/{task_id}/throw-away": "start_agents",
    "POST /tasks/{task_id}/bring-back": "start_agents",
    "POST /tasks/{task_id}/cancel": "start_agents",
    "POST /tasks/{task_id}/merged": "start_agents",
    "POST /tasks/{task_id}/pull-request": "start_agents",
    "POST /tasks/{task_id}/enough": "start_agents",
    "POST /tasks/{task_id}/follow": "start_agents",
    "POST /task-sources": "start_agents",
    "POST /task-sources/{task_source_id}/renew-secret": "start_agents",
    "DELETE /task-sources/{task_source_id}": "start_agents",
    "POST /host-accounts": "manage_people",
    "DELETE /host-accounts/{host_account_id}": "manage_people",
    "POST /agent-runs": "start_agents",
    "POST /agent-runs/{agent_run_id}/messages": "start_agents",
    "POST /agent-runs/{agent_run_id}/interrupt": "start_agents",
    "POST /agent-runs/{agent_run_id}/stop": "start_agents",
    "POST /agent-runs/{agent_run_id}/go-on": "start_agents",
    "POST /agent-runs/{agent_run_id}/budget": "start_agents",
    "POST /agent-runs/{agent_run_id}/accept": "start_agents",
    "POST /agent-runs/{agent_run_id}/discard": "start_agents",
    "POST /schedules": "manage_schedules",
    "PATCH /schedules/{schedule_id}": "manage_schedules",
    "DELETE /schedules/{schedule_id}": "manage_schedules",
    "POST /schedules/{schedule_id}/pause": "manage_schedules",
    "POST /schedules/{schedule_id}/resume": "manage_schedules",
    "POST /schedules/{schedule_id}/run": "manage_schedules",
    "POST /schedules/{schedule_id}/runs/{scheduled_run_id}/extend": "manage_schedules",
    "POST /schedules/{schedule_id}/runs/{scheduled_run_id}/stop": "manage_schedules",
    "POST /approver-groups": "manage_people",
    "PUT /approver-groups/{approver_group_id}": "manage_people",
    "DELETE /approver-groups/{approver_group_id}": "manage_people",
    "GET /callbacks": "manage_log_targets",
    "POST /callbacks/{callback_request_id}/again": "manage_log_targets",
    "POST /actions": "submit",
    "POST /actions/{action_id}/consume": "consume",
    "POST /actions/{action_id}/continue": "consume",
    "POST /actions/{action_id}/compensate": "take_back",
    "POST /actions/{action_id}/decision": "decide",
    "POST /actions/{action_id}/snooze": "decide",
    "DELETE /actions/{action_id}/snooze": "decide",
    "POST /actions/{action_id}/pass": "decide",
    "POST /actions/{action_id}/grant": "decide",
    "POST /actions/{action_id}/let-read": "decide",
    "POST /actions/{action_id}/tell": "decide",
    "POST /actions/{action_id}/comments": "decide",
    "POST /actions/{action_id}/comments/send": "decide",
    "POST /workspaces/{key}/comments": "decide",
    "POST /workspaces/{key}/comments/send": "decide",
    "PATCH /comments/{comment_id}": "decide",
    "DELETE /comments/{comment_id}": "decide",
    "POST /actions/{action_id}/interrupt": "decide",
    "POST /actions/{action_id}/go-on": "decide",
    "POST /messages/{message_id}/read": "consume",
    "POST /grants/{grant_id}/revoke": "decide",
    "POST /unasked/looked": "decide",
    "POST /stop": "stop_everything",
    "POST /stop/lift": "lift_stop",
    "POST /policies": "write_policy",
    "POST /policies/diff": "write_policy",
    "POST /policies/effect": "write_policy",
    "GET /policies/effect/{replay}": "write_policy",
    "POST /policies/files/{policy_file_id}/adopt": "write_policy",
    "POST /policies/files/{policy_file_id}/let-go": "write_policy",
    "POST /policies/import": "write_policy",
    "POST /policies/try": "write_policy",
    "POST /policies/versions/{n}/restore": "write_policy",
    "DELETE /workspaces/{key}/snapshots/{n}": "delete_snapshot",
    "POST /workspaces/{key}/snapshots/{n}/untrash": "delete_snapshot",
    "PUT /retention": "manage_retention",
    "POST /retention/preview": "manage_retention",
    "POST /retention/sweeps": "manage_retention",
    "POST /retention/sweeps/stop": "manage_retention",
    "POST /retention/sweeps/put-off": "manage_retention",
    "POST /retention/holds": "hold",
    "DELETE /retention/holds/{hold_id}": "hold",
    "GET /log/checkpoints": "export_log",
    "GET /log/export": "export_log",
    "GET /oversight": "read_measures",
    "GET /measures": "read_measures",
    "GET /metrics": "scrape_metrics",
    "POST /storage/{work}": "manage_retention",
    "POST /storage/{work}/stop": "manage_retention",
    "GET /measures/limits": "read_measures",
    "PUT /measures/limits/{measure}": "set_caps",
    "POST /measures/limits/{measure}/lift": "lift_cap",
    "GET /credentials": "manage_secrets",
    "PUT /credentials/{name}": "manage_secrets",
    "DELETE /credentials/{name}": "manage_secrets",
    "GET /secrets": "manage_secrets",
    "GET /secrets/{name}": "manage_secrets",
    "PUT /secrets/{name}": "manage_secrets",
    "DELETE /secrets/{name}": "manage_secrets",
    "GET /scrubs": "purge",
    "POST /scrubs": "purge",
    "GET /scrubs/{scrub_id}": "purge",
    "POST /scrubs/{scrub_id}/purge": "purge",
    "POST /scrubs/{scrub_id}/stop": "purge",
    "GET /purges": "purge",
    "GET /purges/{receipt_id}": "purge",
    "GET /tokens": "manage_tokens",
    "POST /tokens": "manage_agents",
    "POST /tokens/revoke-unused": "manage_tokens",
    "POST /tokens/{token_id}/revoke": "manage_tokens",
    "DELETE /me/sessions/{session_id}": "read_log",  # one's own; an admin those of others
    "PUT /me/duty": "read",  # one's own
    "DELETE /me/sessions": "read_log",
    "POST /teams": "create_team",
    "PATCH /teams/{slug}": "manage_team",
    "POST /teams/{slug}/archive": "manage_team",
    "POST /teams/{slug}/unarchive": "manage_team",
    "POST /teams/{slug}/members": "manage_people",
    "PATCH /teams/{slug}/members/{person}": "manage_people",
    "DELETE /teams/{slug}/members/{person}": "manage_people",
    "POST /teams/{slug}/members/{person}/purge": "purge_person",
    "GET /log-targets": "manage_log_targets",
    "POST /sessions/{conversation_id}/messages": "submit",
    "GET /documents/{name}": "submit",
    "PUT /documents/{name}": "submit",
    "DELETE /documents/{name}": "submit",
    "POST /log-targets": "manage_log_targets",
    "PATCH /log-targets/{target_id}": "manage_log_targets",
    "DELETE /log-targets/{target_id}": "manage_log_targets",
}
PEOPLE_ALONE = {
    "GET /agent-programs",
    "GET /agent-programs/{agent_program}",
    "GET /agents/{agent_id}/day",
    "GET /approver-groups",
    "GET /callbacks",
    "GET /definitions",
    "GET /duty",
    "GET /me/duty",
    "PUT /me/duty",
    "GET /definitions/{name}",
    "GET /definitions/{name}/comparison",
    "GET /definitions/{name}/export",
    "GET /definitions/{name}/versions",
    "GET /hosts",
    "GET /host-accounts",
    "GET /task-sources",
    "GET /log-targets",
    "GET /log/checkpoints",
    "GET /log/export",
    "GET /measures",
    "GET /measures/limits",
    "GET /metrics",
    "GET /oversight",
    "GET /policies",
    "GET /policies/current",
    "GET /policies/export",
    "GET /policies/files",
    "GET /policies/files/{policy_file_id}",
    "GET /policies/files/{policy_file_id}/diff",
    "GET /policies/versions",
    "GET /policies/versions/{n}",
    "GET /policies/versions/{n}/difference",
    "GET /purges",
    "GET /purges/{receipt_id}",
    "GET /retention",
    "GET /retention/holds",
    "GET /retention/preview",
    "GET /retention/sweeps",
    "GET /scrubs",
    "GET /scrubs/{scrub_id}",
    "GET /search",
    "GET /credentials",
    "GET /secrets",
    "GET /secrets/{name}",
    "GET /me/sessions",
    "GET /storage",
    "GET /teams",
    "GET /teams/{slug}/members",
    "GET /unasked",
    "GET /tokens",
    "GET /workspaces/{key}/blame/{path}",
    "GET /workspaces/{key}/file-history/{path}",
    "GET /workspaces/{key}/snapshots/{n}/folder",
    "POST /workspaces/{key}/snapshots/{n}/folder",
    "DELETE /workspaces/{key}/snapshots/{n}/folder",
}
# Addresses that name a kind of work, or a version of the policy, of the caller's own team, or what its admins see.
OF_THE_TEAM = ("/storage/", "/policies/", "/tokens/", "/secrets/", "/measures/", "/scrubs/", "/purges/")
OF_THE_TEAM += (
    "/approver-groups/",
    "/task-sources/",
    "/host-accounts/",
    "/callbacks/",
    "/credentials/",
    "/agent-programs/",
    "/teams/",
    "/me/sessions/",
    "/log-targets/",
    "/definitions/",
    "/documents/",
    "/hosts/",
)
# A person settles what is unclear, an agent tells how its own action ended; a person takes back as a decider, and tries
# a command as one, where an agent may try its own.
BY_STATE = {f"POST /actions/{{action_id}}/{verb}" for verb in ("outcome", "cancel", "rehearse", "let-read", "messages")}
BY_STATE |= {"GET /actions/{action_id}/attestation"}  # of an action that is decided
BY_STATE |= {"GET /policies/effect/{replay}"}  # while it is replayed
# Nobody else's draft is there for a caller.
OF_WHAT_IS_NOT_THERE = {
    "POST /environments/{name}/installed/undo",
    "POST /environments/{name}/image/pull",
    "PATCH /comments/{comment_id}",
    "DELETE /comments/{comment_id}",
}


@pytest.fixture(scope="module")
def things(agent, place, everybody) -> dict[str, str]:
    """One of each thing that an address may name; all belong to the agent."""
    for verb in ("pause", "resume"):
        agent.post(f"/workspaces/{place}/{verb}", None, 202)
        agent.settled(place)
    command = agent.post(f"/workspaces/{place}/commands", {"command": "true"}, 201).json
    agent.finished(command["id"])
    action = agent.post("/actions", {"tool": "Bash", "arguments": {"command": "git push"}}, 201).json
    liked = agent.post("/actions", {"tool": "Bash", "arguments": {"command": "git push origin liked"}}, 201).json
    grant = everybody["contract reviewer"].post(f"/actions/{liked['id']}/grant", {"digest": liked["digest"]}, 201).json
    asked = {"tool": "Bash", "arguments": {"command": "git push origin told"}, "session": "walked"}
    told = agent.post("/actions", asked, 201).json
    message = everybody["contract reviewer"].post(f"/actions/{told['id']}/tell", {"text": "Wait."}, 201).json
    everybody["contract lead"].call("PUT", "/secrets/WALKED", {"value": "of the walk"})
    everybody["contract lead"].post("/definitions", {"name": "WALKED", "content": {"system": "Walk."}}, 201)
    agent.call("PUT", f"/workspaces/{place}/notes", {"text": "walked"})
    agent.call("PUT", "/documents/WALKED", {"body": {"walked": True}})
    nightly = {"name": "walked", "cron": "0 3 1 1 *", "command": "true", "workspace": place}
    schedule = everybody["contract lead"].post("/schedules", nightly, 201).json
    night = everybody["contract lead"].post(f"/schedules/{schedule['id']}/run", None, 201).json
    agent.finished(night["command"])
    next_one = {"person": "contract-reviewer"}
    given = everybody["contract lead"].post(f"/workspaces/{place}/hand-overs", next_one, 201).json
    held = everybody["contract lead"].post("/retention/holds", {"workspace": place, "reason": "walked"}, 201).json
    wish = {"name": "walked", "paths": ["hello.txt"]}
    kept = agent.post(f"/workspaces/{place}/artifacts", wish, 201).json
    agent.post(f"/workspaces/{place}/fork", {"key": f"{place}-beside"}, 201)
    agent.settled(f"{place}-beside")
    agent.call("POST", f"/workspaces/{place}/snapshots/1/screenshot", png(2, 2), 201)
    return {
        "artifact_id": kept["id"],
        "checkpoint_id": checkpoint_of(agent, place),
        "agent_run_id": agent_run_of(agent, place),
        "task_id": task_of(agent, place),
        "agent_id": agent_id_of(agent, action["id"]),
        "agent": agent.get("/me").json["name"],
        "agent_program": "claude-code",
        "hold_id": held["id"],
        "lesson_id": lesson_id_of(agent, place),
        "hand_over_id": given["id"],
        "schedule_id": schedule["id"],
        "scheduled_run_id": night["id"],
        "run_id": agent.get(f"/workspaces/{place}/runs").json["runs"][0]["id"],
        "message_id": message["id"],
        "comment_id": str(uuid.uuid4()),
        "conversation_id": conversation_of(agent),
        "seq": "1",
        "grant_id": grant["id"],
        "key": place,
        "other": f"{place}-beside",
        "path": "hello.txt",
        "name": "WALKED",
        "policy_file_id": policy_file_of(agent, place),
        "approver_group_id": str(uuid.uuid4()),
        "task_source_id": str(uuid.uuid4()),
        "host_account_id": str(uuid.uuid4()),
        "callback_request_id": str(uuid.uuid4()),
        "receipt_id": receipt_of(agent, place),
        "scrub_id": everybody["contract admin"].post("/scrubs", {"value": "walked by the contract"}, 202).json["id"],
        "id": command["id"],
        "n": "1",
        "port": "3000",
        "action_id": action["id"],
        "work": "check",
        "measure": "awake_hours",
        "token_id": everybody["contract admin"].get("/tokens?kind=agent").json["tokens"][0]["id"],
        "slug": next(iter(agent.get("/me").json["teams"])),
        "person": "nobody",
        "session_id": "1",
        "host": "nowhere",
        "target_id": "00000000-0000-0000-0000-000000000000",
        "operation_id": agent.get(f"/workspaces/{place}/operations").json["operations"][0]["id"],
    }


def conversation_of(agent) -> str:
    """The id of a session of the agent, as its hook tells of one."""
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "conversation", "prompt": "walk"}
    assert agent.product.call("POST", "/hooks/claude-code", agent.token, event).status == 200
    return agent.get("/sessions?session=conversation").json["sessions"][0]["id"]


def checkpoint_of(agent, key: str) -> str:
    """The id of a checkpoint whose files are nowhere: the workspace is no microVM."""
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.database import clock; from workspaces.models import Checkpoint, Workspace;"
            f"place = Workspace.objects.get(key='{key}');"
            "row = {'workspace': place, 'environment': place.environment, 'name': 'walked', 'bytes': 1};"
            "row |= {'snapshot_number': 1, 'disk_generation': 0, 'created_at': clock.now()};"
            "print(json.dumps(str(Checkpoint.objects.create(**row).pk)))"
        )
    )


def agent_run_of(agent, key: str) -> str:
    """The id of a run that has failed: no environment here names an agent."""
    return json.loads(
        agent.product.shell(
            "import json; from secrets import token_hex; from dashboard.database import clock;"
            "from approvals.models import AgentRun;"
            "from workspaces.models import Workspace; from workspaces.services import run_tokens;"
            f"place = Workspace.objects.get(key='{key}');"
            "row = {'team': place.team, 'workspace': place, 'agent': run_tokens.agent_of(place), 'task': 'walked'};"
            "row |= {'program': 'codex@1.2.3', 'model': 'none', 'state': 'failed', 'token_sha256': token_hex(32)};"
            "row |= dict.fromkeys(('created_at', 'changed_at'), clock.now());"
            "print(json.dumps(str(AgentRun.objects.create(**row).pk)))"
        )
    )


def task_of(agent, key: str) -> str:
    """The id of a task with an attempt in the workspace."""
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.database import clock; from approvals.models import Task, TaskAttempt;"
            f"from workspaces.models import Workspace; place = Workspace.objects.get(key='{key}');"
            "row = {'team': place.team, 'title': 'walked', 'environment': place.environment.name};"
            "task = Task.objects.create(**row, created_at=clock.now(), changed_at=clock.now());"
            "TaskAttempt.objects.create(task=task, number=1, workspace=place);"
            "print(json.dumps(str(task.pk)))"
        )
    )


def policy_file_of(agent, key: str) -> str:
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.database import clock; from approvals.models import PolicyFile;"
            f"from workspaces.models import Workspace; place = Workspace.objects.get(key='{key}');"
            "row = {'team': place.team, 'repository': 'walked/x', 'workspace': place, 'sha256': '1' * 64};"
            "print(json.dumps(str(PolicyFile.objects.create(**row, seen_at=clock.now()).pk)))"
        )
    )


def receipt_of(agent, key: str) -> str:
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.database import clock; from workspaces.models import PurgeReceipt, Workspace;"
            f"row = {{'team': Workspace.objects.get(key='{key}').team, 'body': {{'reason': ''}}, 'sha256': '0' * 64}};"
            "print(json.dumps(str(PurgeReceipt.objects.create(**row, created_at=clock.now()).pk)))"
        )
    )


def agent_id_of(agent, action_id: str) -> str:
    return json.loads(
        agent.product.shell(
            "import json; from approvals.models import Action;"
            f"print(json.dumps(str(Action.objects.get(pk='{action_id}').agent_id)))"
        )
    )


def lesson_id_of(agent, place: str) -> str:
    """The id of a lesson from the workspace, as of a repository that it was made from."""
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.database import clock; from workspaces.models import Lesson, Workspace;"
            f"found = Workspace.objects.get(key='{place}');"
            "about = dict(workspace=found, workspace_key=found.key, repository='walked/x', number=1, text='walked');"
            "made = Lesson.objects.create(team=found.team, sha256='0' * 64, created_at=clock.now(), **about);"
            "print(json.dumps(str(made.pk)))"
        )
    )


@pytest.fixture(scope="module")
def elsewhere(agent) -> str:
    """A token of the agent's other workspace, as its programs have."""
    key = agent.workspace()
    return json.loads(
        agent.product.shell(
            "import json; from dashboard.people.tokens import make_token; from workspaces.models import Workspace;"
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
        query = "&".join(f"{p['name']}={p['schema'].get('enum', [things.get(p['name'], '1')])[0]}" for p in required)
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
        for measured in ("last_active_at", "vitals", "agents_at_work"):  # which time alone changes, too
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


@pytest.mark.parametrize("name", sorted(names()))
def test_without_a_token_nobody_comes_in(knock, name):
    for token in ("", "hr_wrong"):
        answer = knock(name, "", token)
        assert (answer.status, answer.json["status"]) == (401, 401)


@pytest.mark.parametrize("name", sorted(n for n in names() if "{" in n and not n.split()[1].startswith(OF_THE_TEAM)))
def test_what_another_team_or_agent_owns_is_404(knock, traces, name, elsewhere):
    before = traces()
    strangers = ("strangers admin", "strangers viewer", "strangers agent", "contract other-agent")
    assert {who: knock(name, who).status for who in strangers} == dict.fromkeys(strangers, 404)
    # What programs in another workspace of the same agent have is a stranger here as well; grants are for people.
    assert knock(name, "", elsewhere).status in ((403, 404) if "{grant_id}" in name else (404,))
    assert traces() == before


@pytest.mark.parametrize("name", sorted(name for name in names() if "{" not in name and name.startswith("GET")))
def test_no_list_tells_strangers_anything(knock, things, name):
    for who in ("strangers admin", "strangers agent", "contract other-agent"):
        answer = knock(name, who)
        assert answer.status == (403 if name in PEOPLE_ALONE and who.endswith("agent") else 200)
        for thing in ("key", "id", "action_id", "artifact_id"):
            assert things[thing] not in answer.text


@pytest.mark.parametrize("name", sorted(name for name in names() if name not in BY_STATE))
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
