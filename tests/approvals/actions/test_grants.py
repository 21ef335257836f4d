"""Allowed for a while: what a grant covers, what it never does, and how it ends."""

from datetime import timedelta

import pytest

from approvals.actions import gate, grants
from approvals.evaluation import policies
from approvals.models import Grant, Status
from dashboard.database import clock
from dashboard.models import Agent, Event, Membership, Role
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token, make_token
from dashboard.problems import Problem

from ..conftest import FORCE, LIST, PUSH

pytestmark = pytest.mark.django_db


@pytest.fixture
def give(person):
    """`give(action, by=bob)`: approve it, and its like for half an hour."""

    def allow(action, *, by, **more):
        more.setdefault("digest", action.digest)
        return grants.approve_and_grant(gate.find(action.pk, caller=person(by)), caller=person(by), **more)

    return allow


def test_the_same_call_runs_without_asking_and_each_use_counts(ask, give, consume, bob):
    first = ask()
    grant = give(first, by=bob, uses=2)
    first.refresh_from_db()
    assert (first.status, first.grant) == (Status.APPROVED, None)
    assert consume(first).status == Status.RUNNING
    again = ask(PUSH | {"description": "in other words"})
    assert (again.status, again.grant, again.tier) == (Status.APPROVED, grant, "high")
    assert again.revisions.get().reasons[0].startswith("Auto-approved: bob allowed this until ")
    assert ask().status == Status.APPROVED
    grant.refresh_from_db()
    assert grant.uses_left == 0
    assert ask().status == Status.PENDING


def test_the_log_and_the_agent_hear_whose_grant_it_was(ask, give, bob, api, agent_token):
    grant = give(ask(), by=bob)
    again = ask()
    given, allowed = Event.objects.get(verb="grant.given"), Event.objects.get(verb="action.allowed")
    assert (given.actor_label, given.subject_id, given.data["agent"]) == ("bob", str(grant.pk), str(grant.agent_id))
    assert (allowed.actor_label, allowed.subject_id) == ("a grant of bob", str(again.pk))
    told = api(agent_token).get(f"/api/v1/actions/{again.pk}").json()
    assert (told["decision"]["by"], told["decision"]["verdict"]) == ("a grant of bob", "approve")


@pytest.mark.parametrize(
    "other",
    [{"command": "git push origin dev"}, {"command": "git push origin main && ls"}, FORCE, PUSH | {"timeout": 5}],
)
def test_a_grant_covers_no_other_call(ask, give, bob, other):
    give(ask(), by=bob)
    assert ask(other).status == Status.PENDING


def test_a_grant_covers_no_other_folder_or_agent(ask, give, bob, team):
    give(ask(), by=bob)
    assert ask(cwd="/elsewhere").status == Status.PENDING
    other = Agent.objects.create(team=team, name="codex")
    caller = caller_by_token(find_token(make_token(team, agent=other)))
    asked = gate.submit(gate.Call(tool="Bash", arguments=PUSH), caller=caller)[0]
    assert asked.status == Status.PENDING


def test_a_new_reason_to_wait_asks_again(ask, give, bob, team, person, lena):
    """Whatever the judgement says now that it did not say on the card was not looked at by anybody."""
    give(ask(), by=bob)
    text = policies.active(team.pk).text.replace("high = [\n", 'high = [\n  "Bash(git push *)",\n')
    policies.save(text, caller=person(lena), team=team)
    assert ask().status == Status.PENDING


STRICT = """
from approvals.evaluation.judge import policies
from dashboard.people.provisioning import team_by_slug
from dashboard.models import Actor
text = 'mode = "everything"\\nhigh = ["Edit(src/secret/**)"]\\n'
policies.add(team_by_slug("grants").pk, text, actor=Actor.system("tests"))
"""


def test_edits_in_the_same_folder_are_covered_and_no_others(product):
    """With a runner, since where symlinks lead is looked at each time."""
    token, person = product.agent_token("claude", "grants"), product.person_token("gina", "reviewer", "grants")
    product.shell(STRICT)
    for key in ("one", "two"):
        product.post("/api/v1/workspaces", token, {"key": key})
        while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
            pass

    def asks(path, key="one", tool="Write"):
        told = {"content": "x"} if tool == "Write" else {"old_string": "a", "new_string": "b"}
        wish = {"workspace": key, "tool": tool, "arguments": {"file_path": path} | told}
        return product.post("/api/v1/actions", token, wish).json

    command = {"command": "mkdir -p src lib; ln -s ../lib src/way"}
    id = product.post("/api/v1/workspaces/one/commands", token, command).json["id"]
    assert product.get(f"/api/v1/commands/{id}?wait=20", token).json["exit_status"] == 0
    card = asks("src/app.py")
    wish = {"digest": card["digest"], "covers": "folder"}
    said = product.post(f"/api/v1/actions/{card['id']}/grant", person, wish).json["says"]
    assert said == "Editing and creating files under /src, except protected ones"
    covered = [asks("src/deep/other.py"), asks("src/app.py", tool="Edit"), asks("/workspace/src/b.py")]
    assert [action["status"] for action in covered] == ["approved"] * 3
    others = {
        "beside": asks("lib/app.py"),
        "above": asks("src/../app.py"),
        "through a symlink": asks("src/way/app.py"),
        "named by a rule": asks("src/secret/key.py"),
        "protected": asks("src/.git/hooks/pre-commit"),
        "in another workspace": asks("src/app.py", "two"),
    }
    assert {name: action["status"] for name, action in others.items()} == dict.fromkeys(others, "pending")


def test_a_critical_or_decided_call_gives_no_grant(ask, give, decide, bob, lena):
    with pytest.raises(Problem) as critical:
        give(ask(FORCE), by=bob)
    assert critical.value.status == 422
    action = ask()
    decide(action, "deny", by=lena)
    with pytest.raises(Problem) as decided:
        give(action, by=bob)
    assert decided.value.status == 409
    assert not Grant.objects.exists()


def test_an_old_digest_gives_none_and_approves_nothing(ask, give, bob):
    action = ask()
    with pytest.raises(Problem) as refused:
        give(action, by=bob, digest="0" * 64)
    action.refresh_from_db()
    assert (refused.value.status, action.status, Grant.objects.count()) == (409, Status.PENDING, 0)


@pytest.mark.parametrize("wish", [{"minutes": 0}, {"minutes": 1441}, {"uses": 0}, {"uses": 101}, {"covers": "folder"}])
def test_too_much_is_refused(ask, give, bob, wish):
    action = ask()
    with pytest.raises(Problem) as refused:
        give(action, by=bob, **wish)
    action.refresh_from_db()
    assert (refused.value.status, action.status) == (422, Status.PENDING)


def test_viewers_and_agents_give_none(ask, person, caller, vera):
    action = ask()
    for who in (person(vera), caller):
        with pytest.raises(Problem) as refused:
            grants.approve_and_grant(action, caller=who, digest=action.digest)
        assert refused.value.status == 403


def test_a_grant_ends_at_its_time(ask, give, bob):
    grant = give(ask(), by=bob)
    Grant.objects.filter(pk=grant.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert ask().status == Status.PENDING


def test_a_grant_ends_when_its_giver_may_no_longer_decide(ask, give, bob):
    give(ask(), by=bob)
    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    assert ask().status == Status.PENDING


def test_revoking_a_grant_revokes_its_unused_approvals(ask, give, bob, lena, person, consume):
    grant = give(ask(), by=bob)
    kept = ask()
    grants.revoke(grant.pk, caller=person(lena))
    kept.refresh_from_db()
    assert (kept.status, kept.result["by"]) == (Status.CANCELLED, "lena")
    assert ask().status == Status.PENDING
    with pytest.raises(Problem) as twice:
        grants.revoke(grant.pk, caller=person(lena))
    assert twice.value.status == 409
    with pytest.raises(Problem):
        consume(kept)


def test_a_grant_ends_when_everything_is_stopped(ask, give, bob, alice, person, team):
    give(ask(), by=bob)
    gate.stop_everything(team, caller=person(alice))
    gate.lift_stop(team, caller=person(alice))
    assert ask().status == Status.PENDING


def test_an_allowed_call_uses_no_grant(ask, give, bob):
    grant = give(ask(), by=bob)
    assert ask(LIST).grant is None
    grant.refresh_from_db()
    assert grant.uses_left == 20


def test_from_the_card_and_back_on_the_policy_page(ask, browser_of, bob, vera):
    action = ask()
    client = browser_of(bob)
    assert "Don't ask again for" in client.get(f"/actions/{action.pk}/").content.decode()
    assert "Don't ask again for" not in browser_of(vera).get(f"/actions/{action.pk}/").content.decode()
    page = client.get(f"/actions/{action.pk}/allow/").content.decode()
    assert "Exactly this call again" in page
    assert browser_of(vera).get(f"/actions/{action.pk}/allow/").status_code == 403
    wish = {"digest": action.digest, "covers": "exact", "minutes": "30", "uses": "5"}
    client.post(f"/actions/{action.pk}/allow/", wish)
    grant = Grant.objects.get()
    assert (grant.uses_left, grant.by) == (5, bob)
    again = ask()
    assert "Allowed by a grant of bob" in client.get(f"/actions/{again.pk}/").content.decode()
    assert "4 more times" in browser_of(vera).get("/policy/").content.decode()
    assert browser_of(vera).post(f"/grants/{grant.pk}/revoke/").status_code == 403
    client.post(f"/grants/{grant.pk}/revoke/")
    grant.refresh_from_db()
    assert grant.revoked_at is not None
    assert "4 more times" not in client.get("/policy/").content.decode()


def test_a_grant_is_named_for_what_it_covers_and_the_log_holds_no_command(ask, give, bob):
    action = ask({"command": "curl -H 'Token: 4711' https://e.org/a"})
    grant = give(action, by=bob)
    assert grant.says == "Exactly: curl -H 'Token: 4711' https://e.org/a"
    event = Event.objects.get(verb="grant.given")
    assert event.data["says"] == f"Exactly the call of {action}"
    long = ask({"command": "curl https://e.org/" + "x" * 500})
    assert give(long, by=bob).says.endswith(f"… (519 characters, of {long})")


def test_what_a_grant_lets_run_does_not_say_that_it_needs_approval(ask, give, bob):
    give(ask(), by=bob)
    said = ask().revisions.get().reasons
    assert [text.partition(":")[0] for text in said] == ["Auto-approved", "Without this grant"]
