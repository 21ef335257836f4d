"""Sessions, teams and their members, and targets of the log over the API: who may do what, and what is refused."""

import json

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user_model
from django.test import Client

from approvals.models import LogTarget
from dashboard.models import Event, Membership, Team, Token
from dashboard.people.tokens import make_sign_in_link

pytestmark = pytest.mark.django_db
V1 = "/api/v1"


@pytest.fixture
def of(api, token_of):
    """`of(person)`: a function that calls the API with the person's token and returns (status, JSON)."""

    def caller(person):
        client = api(token_of(person))

        def call(method, path, body=None):
            sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
            answer = getattr(client, method)(V1 + path, **sent)
            return answer.status_code, answer.json() if answer.content else None

        return call

    return caller


def browser(person) -> Client:
    client = Client(headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"})
    client.post(f"/sign-in/{make_sign_in_link(person)}/")
    return client


def verbs() -> list[str]:
    return list(Event.objects.order_by("id").values_list("verb", flat=True))


# Sessions ------------------------------------------------------------------------------------------------------------


def test_a_person_lists_and_ends_their_own_sessions(bob, vera, of):
    here, there = browser(bob), browser(bob)
    browser(vera)
    call = of(bob)
    status, told = call("get", "/me/sessions")
    shown = [(one["user"], one["device"], one["how"]) for one in told["sessions"]]
    assert (status, shown) == (200, [("bob", "Firefox on Linux", "link")] * 2)
    row = UserSession.objects.get(session_key=here.session.session_key)
    assert call("delete", f"/me/sessions/{row.pk}") == (204, None)
    assert [client.get("/me/").status_code for client in (here, there)] == [302, 200]
    assert call("delete", f"/me/sessions/{row.pk}")[0] == 404
    assert call("delete", "/me/sessions") == (200, {"ended": 1})
    assert verbs()[-2:] == ["person.session_ended", "person.sessions_ended"]
    assert UserSession.objects.filter(user=vera).count() == 1


def test_an_admin_ends_the_sessions_of_members_and_nobody_else_does(alice, bob, lena, mallory, of):
    hers = browser(bob)
    row = UserSession.objects.get(user=bob)
    assert of(lena)("get", "/me/sessions?user=bob")[0] == 403
    assert of(lena)("delete", "/me/sessions?user=bob")[0] == 403
    assert of(lena)("delete", f"/me/sessions/{row.pk}")[0] == 404
    assert of(mallory)("get", "/me/sessions?user=bob")[0] == 404
    assert of(mallory)("delete", "/me/sessions?user=bob")[0] == 404
    assert of(mallory)("delete", f"/me/sessions/{row.pk}")[0] == 404
    assert hers.get("/me/").status_code == 200
    assert [one["id"] for one in of(alice)("get", "/me/sessions?user=bob")[1]["sessions"]] == [row.pk]
    assert of(alice)("delete", f"/me/sessions/{row.pk}") == (204, None)
    browser(bob)
    assert of(alice)("delete", "/me/sessions?user=bob") == (200, {"ended": 1})
    assert Event.objects.filter(verb="person.sessions_ended", actor_label="alice").count() == 1


def test_an_agent_has_no_sessions_and_sees_no_people(api, agent_token, team):
    client = api(agent_token)
    for path in ("/me/sessions", "/teams", f"/teams/{team.slug}/members", "/log-targets"):
        assert client.get(V1 + path).status_code == 403


# Teams ---------------------------------------------------------------------------------------------------------------


def test_a_superuser_creates_a_team_and_others_do_not(alice, of):
    new = {"name": "Search", "slug": "search"}
    assert of(alice)("post", "/teams", new)[0] == 403
    alice.is_superuser = True
    alice.save()
    call = of(alice)
    status, told = call("post", "/teams", new)
    assert (status, told["slug"], told["role"], told["members"]) == (201, "search", "admin", 1)
    assert call("post", "/teams", new)[0] == 409
    assert call("post", "/teams", {"name": "x", "slug": "not a slug"})[0] == 422
    assert Team.objects.filter(slug__in=["search", "not a slug"]).count() == 1


def test_an_admin_renames_archives_and_takes_a_team_out_again(alice, lena, mallory, team, of):
    for person, status in ((lena, 403), (mallory, 404)):
        call = of(person)
        assert call("patch", "/teams/payments", {"name": "Mine"})[0] == status
        assert call("post", "/teams/payments/archive")[0] == status
    call = of(alice)
    assert call("patch", "/teams/payments", {"name": "Money"})[1]["name"] == "Money"
    assert call("patch", "/teams/payments", {"name": ""})[0] == 422
    status, told = call("post", "/teams/payments/archive")
    assert (status, told["archived_at"] is not None, told["stopped_at"] is not None) == (200, True, True)
    assert call("post", "/teams/payments/archive")[0] == 409
    assert call("post", "/teams/payments/unarchive")[1]["archived_at"] is None
    assert [verb for verb in verbs() if verb.startswith("team.")] == [
        "team.renamed",
        "team.stopped",
        "team.archived",
        "team.unarchived",
    ]


def test_a_token_lists_its_team_alone(bob, mallory, of):
    assert [one["slug"] for one in of(bob)("get", "/teams")[1]["teams"]] == ["payments"]
    assert [one["role"] for one in of(mallory)("get", "/teams")[1]["teams"]] == ["admin"]
    assert of(bob)("get", "/teams/other/members")[0] == 404


def test_an_admin_adds_changes_and_removes_members(alice, bob, mallory, of, api, token_of):
    call, bobs = of(alice), token_of(bob)
    status, told = call("post", "/teams/payments/members", {"name": "carla", "role": "viewer"})
    assert (status, "/sign-in/" in told["link"]) == (201, True)
    assert Client().post(told["link"].split("8000")[-1]).status_code == 302
    assert call("post", "/teams/payments/members", {"name": "mallory", "role": "viewer"})[1]["link"] is None
    assert call("post", "/teams/payments/members", {"name": "bob", "role": "viewer"})[0] == 422
    assert call("patch", "/teams/payments/members/carla", {"role": "lead"})[1]["role"] == "lead"
    listed = call("get", "/teams/payments/members")[1]["members"]
    assert [(one["name"], one["role"]) for one in listed] == [
        ("alice", "admin"),
        ("bob", "reviewer"),
        ("carla", "lead"),
        ("mallory", "viewer"),
    ]
    assert call("delete", "/teams/payments/members/bob") == (204, None)
    assert api(bobs).get(f"{V1}/me").status_code == 401
    assert call("delete", "/teams/payments/members/bob")[0] == 404
    assert call("delete", "/teams/payments/members/alice")[0] == 409
    assert call("patch", "/teams/payments/members/alice", {"role": "viewer"})[0] == 409


def test_members_are_changed_by_admins_only(lena, bob, mallory, of):
    for person, status in ((lena, 403), (mallory, 404)):
        call = of(person)
        assert call("post", "/teams/payments/members", {"name": "eve", "role": "admin"})[0] == status
        assert call("patch", "/teams/payments/members/bob", {"role": "admin"})[0] == status
        assert call("delete", "/teams/payments/members/bob")[0] == status
    assert not get_user_model().objects.filter(username="eve").exists()
    assert Membership.objects.get(user=bob).role == "reviewer"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "eve", "role": "king"}, 422),
        ({"name": "eve smith", "role": "viewer"}, 422),
        ({"name": "eve, mallet", "role": "viewer"}, 422),
        ({"name": "", "role": "viewer"}, 422),
        ({"role": "viewer"}, 422),
    ],
)
def test_an_invalid_member_is_refused(alice, of, body, status):
    assert of(alice)("post", "/teams/payments/members", body)[0] == status
    assert Token.objects.count() == 1
    assert get_user_model().objects.count() == 1


# Targets of the log --------------------------------------------------------------------------------------------------


def test_an_admin_adds_switches_and_removes_a_target(alice, team, of):
    call = of(alice)
    status, made = call("post", "/log-targets", {"kind": "folder", "from_start": True})
    assert (status, made["kind"], made["active"], made["key"]) == (201, "folder", True, "")
    assert call("post", "/log-targets", {"kind": "folder"})[0] == 409
    assert call("patch", f"/log-targets/{made['id']}", {"active": False})[1]["active"] is False
    listed = call("get", "/log-targets")[1]["targets"]
    assert [(one["id"], one["active"], "key" in one) for one in listed] == [(made["id"], False, False)]
    assert listed[0]["behind"] == Team.objects.get(pk=team.pk).event_seq
    assert call("delete", f"/log-targets/{made['id']}") == (204, None)
    assert call("delete", f"/log-targets/{made['id']}")[0] == 404
    assert verbs() == ["log.target_added", "log.target_off", "log.target_removed"]


def test_a_webhook_shows_its_key_once_and_a_private_address_is_refused(alice, of):
    status, made = of(alice)("post", "/log-targets", {"kind": "webhook", "address": "https://hooks.example/log"})
    assert (status, len(made["key"]) > 30) == (201, True)
    assert made["key"] not in json.dumps(of(alice)("get", "/log-targets")[1])
    status, refused = of(alice)("post", "/log-targets", {"kind": "webhook", "address": "http://127.0.0.1/"})
    assert (status, refused["field"]) == (422, "address")
    assert of(alice)("post", "/log-targets", {"kind": "pigeon"})[0] == 422
    assert LogTarget.objects.count() == 1


def test_targets_are_for_admins_of_the_team(alice, lena, mallory, of):
    target = of(alice)("post", "/log-targets", {"kind": "folder"})[1]["id"]
    for person, status in ((lena, 403), (mallory, 404)):
        call = of(person)
        assert call("patch", f"/log-targets/{target}", {"active": False})[0] == status
        assert call("delete", f"/log-targets/{target}")[0] == status
    assert of(lena)("get", "/log-targets")[0] == of(lena)("post", "/log-targets", {"kind": "admins"})[0] == 403
    assert of(mallory)("get", "/log-targets")[1] == {"targets": []}
    assert list(LogTarget.objects.values_list("kind", "active")) == [("folder", True)]
