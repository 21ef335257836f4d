"""An agent in a connected folder asks first, by every kind of operation and every call of the API."""

import json
from dataclasses import replace

import pytest

from approvals.models import Action
from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.people.tokens import make_token
from dashboard.problems import Problem
from tests.support.every_operation import body_of, names
from tests.support.every_operation import operations as api_operations
from tests.workspaces.test_folder_environments import folder  # noqa: F401 (a fixture)
from workspaces import lifecycle, operations
from workspaces.models import Command, Environment, Operation, State, Terminal, Workspace
from workspaces.operations import needs_approval
from workspaces.runner import operations as operation_kinds

KINDS = sorted({*operation_kinds.KINDS, "broker", "workspace_action", "put_hook_back", "asked_snapshot"})
WAITS_FOR_A_RUNNER = {"POST /workspaces/{key}/snapshots"}  # only keeps what is there, and waits until that is done
CHANGES = sorted(
    name
    for name in names()
    if name.startswith(("POST", "PUT", "DELETE", "PATCH"))
    and any(part in name for part in ("/workspaces/{key}", "/commands/"))
    and name not in WAITS_FOR_A_RUNNER
)
PERSON = Actor("person", "1", "alice")


@pytest.fixture
def sandbox(team, agent):
    environment = Environment.objects.create(team=team, name="default")
    return Workspace.objects.create(
        team=team, key="box", environment=environment, state=State.READY, created_by_agent=agent
    )


def refused(workspace, by) -> set[tuple[str, int]]:
    """(kind, status) of the operations that the actor may not ask for."""
    found = set()
    for name in KINDS:
        try:
            operations.submit(name, workspace=workspace, by=by)
        except Problem as problem:
            found.add((name, problem.status))
    return found


def test_an_agent_asks_for_every_effect_in_a_folder_but_those_that_keep_or_read(folder, agent):  # noqa: F811
    assert refused(folder, Actor.agent(agent)) == {(kind, 403) for kind in set(KINDS) - needs_approval.UNASKED}
    assert refused(folder, PERSON) == set()
    assert refused(folder, Actor("agent", "1", "claude", approval="an action")) == set()


def test_elsewhere_only_for_what_leaves_or_ends_the_workspace(sandbox, agent):
    assert refused(sandbox, Actor.agent(agent)) == {(kind, 403) for kind in needs_approval.ALWAYS}


def test_a_change_that_nobody_thought_of_is_refused_by_its_event(folder, sandbox, agent):  # noqa: F811
    by = Actor.agent(agent)
    for verb in ("workspace.painted", *needs_approval.UNASKED_EVENTS):
        if verb not in needs_approval.UNASKED_EVENTS:
            with pytest.raises(Problem, match="A person has to allow this first") as caught:
                lifecycle.record(folder, by, verb)
            assert caught.value.status == 403
        lifecycle.record(folder, replace(by, approval="an action"), verb)
        lifecycle.record(folder, PERSON, verb)
        lifecycle.record(sandbox, by, verb)
    assert Event.objects.filter(verb="workspace.painted").count() == 3


@pytest.fixture
def of_people(folder):  # noqa: F811
    """What people did in the folder: a pin, a command, a restore that is under way, a time to stay awake, an alarm."""
    operation = operations.submit("command", workspace=folder, by=PERSON)
    made = {
        "command": Command.objects.create(
            workspace=folder, operation=operation, argv=["sleep"], shown="sleep 9", by=PERSON.as_json
        ),
        "restore": operations.submit("restore", workspace=folder, by=PERSON, args={"number": 1}),
    }
    folder.snapshots.update(pinned=True)
    Workspace.objects.filter(pk=folder.pk).update(awake_until=clock.now(), alarm={"differ": 1})
    return made


def left_by_people(folder) -> tuple:  # noqa: F811
    return (
        list(folder.snapshots.values_list("number", "pinned")),
        list(Command.objects.values_list("shown", "cancelled_at")),
        list(Operation.objects.filter(by__type="person").values_list("kind", "phase", "cancelled_at")),
        Workspace.objects.values_list("awake_until", "alarm", "state", "trashed_at").get(pk=folder.pk),
        list(folder.bound_agents.values_list("name", flat=True)),
    )


@pytest.mark.parametrize("of_one_workspace", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_no_operation_of_the_api_changes_a_folder_unasked(
    folder,  # noqa: F811
    of_people,
    agent,
    api,
    name,
    of_one_workspace,
):
    before = left_by_people(folder)
    token = make_token(agent.team, agent=agent, workspace=folder if of_one_workspace else None)
    method, path = name.split(" ", 1)
    known = {"key": "calc", "path": "calc.py", "n": "1"}
    for parameter, value in known.items():
        path = path.replace(f"{{{parameter}}}", value)
    if "{" in path:
        path = path.replace("{operation_id}", str(of_people["restore"].pk)).replace(
            "{id}", str(of_people["command"].pk)
        )
    body = b"text" if method == "PUT" and "/files/" in path else json.dumps(body_of(api_operations()[name]) or {})
    response = api(token).generic(method, f"/api/v1{path}", body, content_type="application/json")
    # 503: what reads files asks a runner, and there is none.
    assert response.status_code in (202, 403, 404, 409, 422, 200, 503), (name, response.content)
    assert (Terminal.objects.count(), left_by_people(folder)) == (0, before)
    by_agents = Operation.objects.filter(by__type="agent")
    started = set(by_agents.values_list("kind", flat=True))
    assert started <= needs_approval.UNASKED
    folder.refresh_from_db()
    assert (folder.state, folder.trashed_at, list(Workspace.objects.all())) == (State.READY, None, [folder])
    if "action" in response.json():
        assert Action.objects.get(pk=response.json()["action"]["id"]).status == "pending"


@pytest.mark.parametrize(
    ("method", "path", "title"),
    [
        ("DELETE", "/workspaces/calc/snapshots/1/pin", "Unpin snapshot 1 of calc"),
        ("POST", "/commands/{command}/cancel", "Cancel sleep 9 in calc"),
        ("POST", "/workspaces/calc/operations/{restore}/stop", "Stop the restore operation in calc"),
        ("PUT", "/workspaces/calc/awake", "Stop keeping calc awake"),
        ("POST", "/workspaces/calc/keep", "Accept the files of calc as they are"),
    ],
)
def test_an_agents_change_to_work_of_people_becomes_a_card(folder, of_people, api, agent_token, method, path, title):  # noqa: F811
    address = path.format(**{name: row.pk for name, row in of_people.items()})
    response = api(agent_token).generic(method, f"/api/v1{address}", "{}", content_type="application/json")
    assert (response.status_code, response.json()["action"]["title"]) == (202, title)
    assert Action.objects.get().status == "pending"


def test_an_agent_ends_no_terminal_that_somebody_else_opened(sandbox, agent):
    by = Actor.agent(agent)
    of_a_person, own = (operations.submit("terminal", workspace=sandbox, by=opener) for opener in (PERSON, by))
    with pytest.raises(Problem, match="only the terminals that it opened") as caught:
        lifecycle.cancel_operation(sandbox, of_a_person, by=by)
    assert caught.value.status == 403
    for operation, who in ((own, by), (of_a_person, replace(by, approval="an action"))):
        lifecycle.cancel_operation(sandbox, operation, by=who)
        operation.refresh_from_db()
        assert operation.cancelled_at


def test_an_agent_ends_and_keeps_its_own_unasked(folder, agent, api, agent_token):  # noqa: F811
    by = replace(Actor.agent(agent), approval="an action")
    operation = operations.submit("command", workspace=folder, by=by)
    command = Command.objects.create(
        workspace=folder, operation=operation, argv=["sleep"], shown="sleep 9", by=operation.by
    )
    restore = operations.submit("restore", workspace=folder, by=by, args={"number": 1})
    for path in (
        f"/commands/{command.pk}/cancel",
        f"/workspaces/calc/operations/{restore.pk}/stop",
        "/workspaces/calc/snapshots/1/pin",
    ):
        assert api(agent_token).post(f"/api/v1{path}").status_code == 202, path
    command.refresh_from_db()
    restore.refresh_from_db()
    assert (command.cancelled_at is None, restore.cancelled_at is None) == (False, False)
    assert (folder.snapshots.get().pinned, Action.objects.count()) == (True, 0)
