"""What a sweep deletes, what it keeps whatever the rules say, and that it can be repeated."""

from datetime import timedelta

import pytest

from approvals.models import Action, ActionMessage, AgentMessage, CardViewer, ModelUsage, SessionPrompt
from dashboard.database import clock
from dashboard.models import Actor, Event, Token
from dashboard.people.tokens import make_token
from workspaces import secrets
from workspaces.models import (
    Command,
    Contact,
    EgressDay,
    Hold,
    Operation,
    RetentionRule,
    Secret,
    Snapshot,
    State,
    Workspace,
)
from workspaces.services import retention
from workspaces.services.retention import holds, snapshot_trash

from .conftest import make_command, make_workspace

NOBODY = Actor.system("test")


def days_ago(days):
    return clock.now() - timedelta(days=days)


def rule(team, layer, days, environment="", **counts):
    return RetentionRule.objects.create(team=team, layer=layer, days=days, environment=environment, **counts)


def add(workspace, age, kind="action", **fields):
    workspace.refresh_from_db(fields=["next_snapshot"])
    number = workspace.next_snapshot
    Workspace.objects.filter(pk=workspace.pk).update(next_snapshot=number + 1)
    columns = {"entries": 1, "bytes": 1, "added_bytes": 1, "tree": bytes([number]) * 32, "created_at": days_ago(age)}
    return Snapshot.objects.create(workspace=workspace, number=number, kind=kind, **columns | fields)


def numbers(workspace):
    return sorted(workspace.snapshots.kept().values_list("number", flat=True))


def test_a_rule_of_an_environment_wins_over_the_teams_and_that_over_the_default(team):
    layer = retention.layer_named("home")
    assert [retention.Rules.of(team).in_force(layer, name).source for name in ("", "web")] == ["default", "default"]
    rule(team, "home", 10)
    rule(team, "home", 5, environment="web")
    rules = retention.Rules.of(team)
    found = [(rules.in_force(layer, name).source, rules.in_force(layer, name).terms.days) for name in ("", "web", "x")]
    assert found == [("team", 10), ("environment", 5), ("team", 10)]


def test_each_kind_of_snapshot_has_its_own_rule(team, workspace):
    for kind in ("action", "end", "periodic", "safety", "manual", "setup"):
        add(workspace, 50, kind)
    rule(team, "snapshots-periodic", 30)
    retention.sweep()
    gone = Snapshot.objects.in_trash().values_list("kind", flat=True)
    assert list(gone) == ["periodic"]


def test_the_newest_and_those_of_days_weeks_and_months_stay(team, workspace):
    ages = {add(workspace, age).number: age for age in (400, 70, 40, 39, 20, 10, 3, 2, 1)}
    rule(team, "snapshots-action", 0, keep_newest=2, keep_monthly=1)
    retention.sweep()
    kept = [ages[number] for number in numbers(workspace) if number in ages]
    this_month = [age for age in ages.values() if (days_ago(age).year, days_ago(age).month) == _month_of(clock.now())]
    assert kept == sorted({1, 2} | ({min(this_month)} if this_month else set()), reverse=True)


def _month_of(at):
    return at.year, at.month


def test_what_a_person_named_or_pinned_the_first_and_the_current_one_always_stay(team, workspace):
    for layer in retention.layers():
        rule(team, layer.name, 0)
    person = {"type": "person", "id": "1", "label": "lena"}
    named = add(workspace, 900, "manual", label="before the demo", by=person)
    pinned = add(workspace, 900, pinned=True)
    add(workspace, 900, "manual", label="an agent's words", by={"type": "agent", "id": "1", "label": "claude"})
    add(workspace, 900)
    Workspace.objects.update(state=State.READY)
    retention.sweep()
    assert numbers(workspace) == sorted({1, 2, named.number, pinned.number})


def test_a_snapshot_waits_in_the_trash_and_can_be_restored(team, workspace):
    one, two = add(workspace, 200), add(workspace, 200)
    rule(team, "snapshots-action", 90)
    rule(team, "trash", 10)
    retention.sweep()
    assert set(Snapshot.objects.in_trash()) == {one, two}
    one.refresh_from_db()
    assert timedelta(days=9) < one.drop_at - clock.now() <= timedelta(days=10)
    snapshot_trash.untrash(one, by=NOBODY)
    retention.sweep(at=clock.now() + timedelta(days=11))
    assert numbers(workspace) == [1, 2, one.number]
    assert not Snapshot.objects.filter(pk=two.pk).exists()
    verbs = Event.objects.filter(verb__in=["retention.swept", "snapshot.untrashed"]).order_by("seq")
    told = [(event.verb, event.data.get("items")) for event in verbs]
    both = {"repo-task-1": [f"snapshot {two.number}", f"snapshot {one.number}"]}
    last = {"repo-task-1": [f"snapshot {two.number}"]}
    assert told == [("retention.swept", both), ("snapshot.untrashed", None), ("retention.swept", last)]


@pytest.mark.parametrize("what", ["snapshot", "workspace", "team"])
def test_nothing_deletes_what_is_on_hold_until_the_hold_ends(team, workspace, what):
    held = add(workspace, 900)
    rule(team, "snapshots-action", 0)
    rule(team, "trash", 0)
    on = {"snapshot": {"snapshot": held}, "workspace": {"workspace": workspace}, "team": {}}[what]
    row = holds.hold(team, reason="lawsuit", by=NOBODY, until=clock.now() + timedelta(days=30), **on)
    report = retention.sweep()[team]
    assert (report.counts.get("snapshots-action", 0), report.held) == (0, 1)
    assert held.number in numbers(workspace)
    Hold.objects.filter(pk=row.pk).update(until=clock.now() - timedelta(seconds=1))
    retention.sweep()
    assert not Snapshot.objects.filter(pk=held.pk).exists()


@pytest.mark.parametrize("trashed", [False, True], ids=["kept", "in the trash"])
def test_the_snapshot_that_a_waiting_action_compares_with_stays_until_it_is_used(
    team, workspace, ask, decide, bob, trashed
):
    compared, other = (add(workspace, 900, "asked") for _ in range(2))
    if trashed:
        Snapshot.objects.filter(pk__in=[compared.pk, other.pk]).update(trashed_at=days_ago(9), drop_at=days_ago(1))
    rule(team, "snapshots-action", 0)
    rule(team, "trash", 0)
    action = ask()
    Action.objects.filter(pk=action.pk).update(asked_snapshot=compared)
    name = f"repo-task-1: snapshot {compared.number}"
    assert f"1 kept: a waiting action compares with it ({name})." in str(retention.preview(team))
    assert [retention.dry_run(team).compared, retention.sweep()[team].compared] == [1, 1]
    assert set(Snapshot.objects.filter(kind="asked")) == {compared}
    decide(action, by=bob)  # what is approved runs later, and its card compares until then
    assert retention.sweep()[team].compared == 1
    Action.objects.filter(pk=action.pk).update(status="succeeded", consumed_at=clock.now())
    assert "a waiting action" not in str(retention.preview(team))
    assert retention.sweep()[team].compared == 0
    assert not Snapshot.objects.filter(kind="asked").exists()


def test_the_api_names_what_a_waiting_action_keeps(team, workspace, ask, alice, api, token_of):
    compared = add(workspace, 900, "asked")
    rule(team, "snapshots-action", 0)
    Action.objects.filter(pk=ask().pk).update(asked_snapshot=compared)
    told = api(token_of(alice)).get("/api/v1/retention/preview").json()
    name = f"repo-task-1: snapshot {compared.number}"
    assert [(layer["count"], layer["compared"]) for layer in told["layers"]] == [(0, [name])]
    assert f"1 kept: a waiting action compares with it ({name})." in told["says"]


@pytest.mark.parametrize("what", ["snapshot", "workspace", "team"])
def test_a_workspace_in_the_trash_is_not_purged_while_something_of_it_is_on_hold(team, workspace, what):
    Workspace.objects.update(trashed_at=days_ago(40), purge_at=days_ago(10), state=State.STOPPED)
    on = {"snapshot": {"snapshot": workspace.head}, "workspace": {"workspace": workspace}, "team": {}}[what]
    row = holds.hold(team, reason="lawsuit", by=NOBODY, **on)
    retention.sweep()
    assert not Operation.objects.filter(kind="purge").exists()
    holds.release(row, by=NOBODY)
    for _ in range(2):
        retention.sweep()
    assert Operation.objects.filter(kind="purge", workspace=workspace).count() == 1


def test_a_dry_run_names_the_same_and_changes_nothing(team, workspace):
    add(workspace, 900)
    rule(team, "snapshots-action", 0)
    before = Event.objects.count()
    told = retention.dry_run(team)
    assert (Snapshot.objects.in_trash().count(), Event.objects.count()) == (0, before)
    done = retention.sweep_team(team)
    assert told.counts["snapshots-action"] == done.counts["snapshots-action"] == 1
    assert told.names["snapshots-action"] == ["repo-task-1: snapshot 3"]


def test_secrets_and_tokens_that_ended_go(team, agent, workspace):
    secrets.save(team, "OLD_KEY", "agent", "a value of secrets", by=NOBODY)
    Secret.objects.update(expires_at=days_ago(31))
    for expires, revoked in ((91, None), (None, 91), (89, None), (None, None)):
        make_token(team, agent=agent)
        last = Token.objects.order_by("-created_at").first()
        Token.objects.filter(pk=last.pk).update(
            expires_at=days_ago(expires) if expires else None, revoked_at=days_ago(revoked) if revoked else None
        )
    rule(team, "unused-tokens", 90)
    Token.objects.filter(expires_at=None, revoked_at=None).update(last_used_at=days_ago(91))
    retention.sweep()
    assert Secret.objects.count() == 0
    assert sorted(bool(token.revoked_at) for token in Token.objects.all()) == [False, True]


def test_contacts_go_after_their_days(team, workspace):
    for host, age in (("long-ago.example.org", 91), ("lately.example.org", 89)):
        at = days_ago(age)
        Contact.objects.create(
            workspace=workspace,
            phase="agent",
            host=host,
            port=443,
            method="CONNECT",
            allowed=False,
            first_at=at,
            last_at=at,
        )
    retention.sweep()
    assert [contact.host for contact in Contact.objects.all()] == ["lately.example.org"]


# Unused workspaces ----------------------------------------------------------------------------------------------------


def test_an_operation_in_progress_protects_snapshots_from_a_sweep_and_is_over_by_the_next_one(team, workspace):
    rule(team, "snapshots-other", 0)
    for _ in range(3):
        add(workspace, 1, kind="manual")
    workspace.head = workspace.snapshots.get(number=5)
    workspace.save()
    Operation.objects.create(workspace=workspace, kind="snapshot", due_at=clock.now())
    shown = [item.name for part in retention.preview(team).parts for item in part.items]
    assert shown == ["snapshot 4", "snapshot 3"]
    retention.sweep_team(team)
    assert numbers(workspace) == [1, 2, 3, 4, 5]
    Operation.objects.all().delete()
    retention.sweep_team(team)
    assert numbers(workspace) == [1, 2, 5]


@pytest.fixture
def unused(team, agent):
    """Workspaces in every state, unused for forty days: {state: workspace}; one that was used, one that is busy."""
    places = {state: make_workspace(team, agent, f"w-{state}", state=state) for state in State.values}
    busy = make_workspace(team, agent, "busy", state=State.STOPPED)
    Operation.objects.create(workspace=busy, kind="resume", due_at=clock.now())
    Workspace.objects.update(last_active_at=days_ago(40))
    make_workspace(team, agent, "recent", state=State.STOPPED)
    return {state: places[state] for state in (State.PAUSED, State.STOPPED, State.ARCHIVED, State.FAILED)}


def asked_for(kind) -> set:
    return set(Operation.objects.filter(kind=kind).values_list("workspace", flat=True))


def test_people_are_warned_a_week_before_what_nobody_uses_goes_to_the_trash(team, unused):
    rule(team, "workspaces", 30)
    rule(team, "home", None)
    assert retention.preview(team).to_warn == ["w-archived", "w-failed", "w-paused", "w-stopped"]
    for _ in range(2):
        retention.sweep()
    warned = Event.objects.filter(verb="workspace.warned").values_list("workspace_id", flat=True)
    assert (sorted(warned), asked_for("trash")) == (sorted(w.pk for w in unused.values()), set())
    # A week later, but one was used meanwhile.
    Workspace.objects.exclude(warned_at=None).update(warned_at=days_ago(8))
    Workspace.objects.filter(pk=unused[State.PAUSED].pk).update(last_active_at=clock.now())
    assert "unused workspaces: 3" in str(retention.preview(team))
    for _ in range(2):
        retention.sweep()
    assert asked_for("trash") == {unused[state].pk for state in (State.STOPPED, State.ARCHIVED, State.FAILED)}


def test_keep_it_takes_the_warning_back(team, unused, lena, vera, browser_of, read):
    rule(team, "workspaces", 30)
    retention.sweep()
    text = read(browser_of(lena), "/")
    assert (text.count(", unused since "), text.count("<button>Keep</button>")) == (4, 4)
    here = f"/w/payments/{unused[State.STOPPED].key}/"
    assert "Unused: moves to the trash" in read(browser_of(vera), here)
    assert browser_of(vera).post(f"{here}wanted/").status_code == 403
    assert browser_of(lena).post(f"{here}wanted/", {"next": "/"}).headers["Location"] == "/"
    assert "Unused: moves to the trash" not in read(browser_of(lena), here)
    assert read(browser_of(lena), "/").count("<button>Keep</button>") == 3


def test_old_homes_and_outputs_are_asked_away_once(team, unused, workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED)
    old, young = make_command(workspace), make_command(workspace)
    Command.objects.filter(pk=old.pk).update(ended_at=days_ago(91))
    Command.objects.filter(pk=young.pk).update(ended_at=days_ago(89))
    for _ in range(2):
        retention.sweep()
    found = {e.workspace_id: e.args for e in Operation.objects.filter(kind="forget")}
    assert found.pop(workspace.pk) == {"home": False, "programs": [str(old.operation_id)]}
    homes = [w for state, w in unused.items() if state != State.ARCHIVED]  # that has none any more
    assert found == {w.pk: {"home": True, "programs": []} for w in homes}


# What people and agents wrote, and what is only counted ---------------------------------------------------------------


@pytest.fixture
def written(agent, bob, ask, decide, workspace):
    """`written(age)`: a message about an action that is over, one to the agent, a prompt, a viewer, and usage."""

    def make(age):
        action, at = ask({"command": f"git push origin b{age}"}), days_ago(age)
        decide(action, "deny", by=bob)
        ActionMessage.objects.create(action=action, kind="question", user=bob, text="why?", at=at)
        AgentMessage.objects.create(agent=agent, user=bob, text="wait", at=at)
        SessionPrompt.objects.create(agent=agent, session="s", text="push", at=at)
        CardViewer.objects.create(action=action, user=bob, at=at)
        ModelUsage.objects.create(action=action, input_tokens=1, at=at)
        EgressDay.objects.create(workspace=workspace, day=at.date(), sent=1)

    return make


WRITTEN = [ActionMessage, AgentMessage, SessionPrompt, CardViewer, ModelUsage, EgressDay]


def left() -> dict:
    return {model.__name__: model.objects.count() for model in WRITTEN if model.objects.exists()}


def test_what_was_written_is_kept_by_the_rule_of_its_layer(team, written):
    for age in (0, 40, 400, 800):
        written(age)
    retention.sweep()
    # By default a year, 30 days, a day, and two years.
    assert left() == {
        "ActionMessage": 2,
        "AgentMessage": 2,
        "SessionPrompt": 1,
        "CardViewer": 1,
        "ModelUsage": 3,
        "EgressDay": 3,
    }
    rule(team, "messages", 10)
    found = retention.preview(team, at=clock.now() + timedelta(minutes=1)).parts
    assert [(part.layer.name, len(part.items)) for part in found] == [("messages", 2)]
    retention.sweep()
    assert (left()["ActionMessage"], left()["AgentMessage"]) == (1, 1)


def test_messages_about_what_is_not_over_and_usage_of_this_month_stay(team, ask, bob, workspace):
    ActionMessage.objects.create(action=ask(), kind="question", user=bob, text="why?", at=days_ago(900))
    EgressDay.objects.create(workspace=workspace, day=clock.now().date(), sent=1)
    rule(team, "messages", 0)
    rule(team, "usage", 0)
    retention.sweep()
    assert left() == {"ActionMessage": 1, "EgressDay": 1}
