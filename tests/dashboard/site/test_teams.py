"""Teams are made, renamed and archived in the product, and a person in several chooses which one pages show."""

import pytest
from django.contrib.auth import get_user_model

from approvals.models import Action, Status
from dashboard.models import Event, Membership, Role, Team
from dashboard.people.tokens import make_token

pytestmark = pytest.mark.django_db
ASK = {"tool": "Bash", "arguments": {"command": "git push origin main"}, "mode": "gate"}


@pytest.fixture
def operator(browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


@pytest.fixture
def in_both(alice, other_team):
    Membership.objects.create(team=other_team, user=alice, role=Role.VIEWER)
    return alice


def ask(api, token) -> int:
    return api(token).post("/api/v1/actions", ASK, content_type="application/json").status_code


def test_an_operator_creates_a_team_and_is_its_admin(operator):
    operator.post("/teams/create/", {"name": "Search", "slug": "search"})
    team = Team.objects.get(slug="search")
    assert [(one.user.username, one.role) for one in team.memberships.all()] == [("root", "admin")]
    assert list(Event.objects.filter(team=team).values_list("verb", "actor_label")) == [("team.created", "root")]


@pytest.mark.parametrize(
    ("name", "slug", "field", "why"),
    [
        ("Search", "payments", "slug", "There is already a team payments."),
        ("Search", "a b", "slug", "Enter a valid"),
        ("", "search", "name", "This field is required."),
    ],
)
def test_what_is_wrong_stands_at_its_field(operator, team, name, slug, field, why):
    text = operator.post("/teams/create/", {"name": name, "slug": slug}).content.decode()
    shown = text.split(f'id="new-{field}_error">')[1].split("</p>")[0]
    assert (why in shown, Team.objects.count()) == (True, 1)


def test_an_admin_of_a_team_creates_no_other(alice, browser_of):
    assert browser_of(alice).post("/teams/create/", {"name": "x", "slug": "x"}).status_code == 403
    assert not Team.objects.filter(slug="x").exists()


def test_a_team_is_renamed_by_its_admin_alone(alice, lena, mallory, team, browser_of):
    wanted = {"team": "payments", "name": "Billing"}
    assert browser_of(lena).post("/teams/rename/", wanted).status_code == 403
    assert browser_of(mallory).post("/teams/rename/", wanted).status_code == 404
    browser_of(alice).post("/teams/rename/", wanted)
    team.refresh_from_db()
    assert (team.name, team.slug) == ("Billing", "payments")
    assert Event.objects.get(verb="team.renamed").data == {"was": "Payments", "name": "Billing"}


def test_in_an_archived_team_nothing_runs_and_everything_is_read(alice, bob, agent_token, team, browser_of, api):
    assert ask(api, agent_token) == 201
    browser_of(alice).post("/teams/archive/", {"team": "payments"})
    team.refresh_from_db()
    assert (team.archived_at is None, team.stopped_at is None) == (False, False)
    action = Action.objects.get()
    assert action.status == Status.CANCELLED
    assert (ask(api, agent_token), api(agent_token).get(f"/api/v1/actions/{action.pk}").status_code) == (403, 200)
    client = browser_of(bob)
    assert [client.get(address).status_code for address in ("/", f"/actions/{action.pk}/", "/log/")] == [200] * 3
    assert "Payments is archived." in client.get("/").content.decode()


def test_an_archived_team_is_changed_by_nobody(alice, lena, agent, team, browser_of, api, token_of):
    browser_of(alice).post("/teams/archive/", {"team": "payments"})
    client, before = browser_of(alice), Event.objects.count()
    for address in ("/stop/lift/", "/agents/add/", f"/agents/{agent.pk}/pause/"):
        client.post(address, {"team": "payments", "name": "x"})
    made = api(token_of(lena)).post("/api/v1/workspaces", {"key": "x"}, content_type="application/json")
    assert (made.status_code, Event.objects.count()) == (403, before)


def test_an_agent_is_told_that_the_team_is_archived(alice, agent_token, browser_of, api):
    browser_of(alice).post("/teams/archive/", {"team": "payments"})
    told = api(agent_token).post("/api/v1/actions", ASK, content_type="application/json").json()
    assert told["detail"] == "This team is archived. Nothing runs in it."


def test_out_of_the_archive_it_stays_stopped_until_somebody_resumes_it(alice, agent_token, team, browser_of, api):
    client = browser_of(alice)
    client.post("/teams/archive/", {"team": "payments"})
    client.post("/teams/archive/", {"team": "payments"})
    client.post("/teams/unarchive/", {"team": "payments"})
    team.refresh_from_db()
    assert (team.archived_at, team.stopped_at is None) == (None, False)
    client.post("/stop/lift/", {"team": "payments"})
    assert ask(api, agent_token) == 201
    verbs = [verb for verb in Event.objects.values_list("verb", flat=True) if verb.startswith("team.")]
    assert verbs == ["team.stopped", "team.archived", "team.unarchived", "team.lifted"]


# The team that pages show --------------------------------------------------------------------------------------------


def test_a_person_in_several_teams_chooses_the_one_that_pages_show(in_both, other_agent, agent, browser_of):
    client = browser_of(in_both)

    def shown() -> set:
        return {one[0].team.slug for one in client.get("/agents/").context["agents"]}

    assert shown() == {"payments", "other"}
    answer = client.post("/teams/show/", {"team": "other", "next": "/agents/"})
    assert (answer["Location"], shown()) == ("/agents/", {"other"})
    client.post("/teams/show/", {"team": ""})
    assert shown() == {"payments", "other"}


def test_a_link_to_another_team_of_theirs_still_opens(in_both, agent_token, browser_of, api):
    ask(api, agent_token)
    client, card = browser_of(in_both), f"/actions/{Action.objects.get().pk}/"
    client.post("/teams/show/", {"team": "other"})
    assert client.get("/waiting/").context["waiting_count"] == 0
    assert client.get(card).status_code == 200


def test_a_form_reaches_all_their_teams(in_both, team, browser_of):
    client = browser_of(in_both)
    client.post("/teams/show/", {"team": "other"})
    client.post("/agents/add/", {"team": "payments", "name": "Codex"})
    assert team.agents.get().name == "Codex"


def test_a_team_that_is_not_theirs_is_not_chosen(alice, other_team, browser_of):
    assert browser_of(alice).post("/teams/show/", {"team": "other"}).status_code == 404


def test_a_person_who_left_the_chosen_team_sees_the_others(in_both, other_team, browser_of):
    client = browser_of(in_both)
    client.post("/teams/show/", {"team": "other"})
    Membership.objects.filter(team=other_team, user=in_both).delete()
    assert client.get("/team/").context["teams"][0]["team"].slug == "payments"


def test_only_a_person_in_several_teams_has_the_switch(alice, bob, other_team, browser_of):
    assert "team-switch" not in browser_of(bob).get("/").content.decode()
    Membership.objects.create(team=other_team, user=bob, role=Role.VIEWER)
    assert "team-switch" in browser_of(bob).get("/").content.decode()


def test_a_token_is_for_one_team_whatever_pages_show(in_both, other_team, browser_of, api):
    token = make_token(other_team, user=in_both)
    assert api(token).get("/api/v1/me").json()["teams"] == {"other": "viewer"}
