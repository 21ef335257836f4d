"""People come by invitation and go by removal: pasted lists, links that work once, and what a removed person keeps."""

import asyncio
import html
import re
import threading
import time

import aiohttp
import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals.models import Status
from dashboard.models import Event, Membership, SignInLink
from dashboard.people.tokens import find_token, make_token
from dashboard.site import phone
from dashboard.site.invitations import Invitee, read_list
from tests.support.visitor import Visitor

from .conftest import FORCE, PUSH


@pytest.fixture
def invite(alice, browser_of):
    """`invite("nora, otto")`: what Alice's page says to it."""
    client = browser_of(alice)

    def post(people, role="reviewer", **more):
        response = client.post("/team/invite/", {"team": "payments", "people": people, "role": role, **more})
        assert response.status_code == 200
        return html.unescape(response.content.decode())

    return post


def links(text) -> list[str]:
    return re.findall(r"<code>http://[^<]+(/sign-in/[^<]+)</code>", text)


def membership(user) -> Membership:
    return Membership.objects.get(user=user, team__slug="payments")


# Invite --------------------------------------------------------------------------------------------------------------


def test_a_pasted_list_becomes_people_with_links_and_codes(invite, client):
    text = invite("nora\nBen Adams <Ben@example.org>, otto@example.org\n", role="lead")
    found = Membership.objects.exclude(user__username="alice").order_by("user__username")
    assert [(m.user.username, m.user.email, m.user.first_name, m.role) for m in found] == [
        ("ben@example.org", "Ben@example.org", "Ben Adams", "lead"),
        ("nora", "", "", "lead"),
        ("otto@example.org", "otto@example.org", "", "lead"),
    ]
    assert len(links(text)) == 3
    assert text.count("<svg") - text.count('class="icon') == 3 + text.count('class="row-mark')
    assert [e.data for e in Event.objects.filter(verb="person.added")] == [{"role": "lead"}] * 3
    client.post(links(text)[0])
    assert "nora" in client.get("/me/").content.decode()


def test_an_address_that_somebody_claims_gets_them_no_invitation(invite, mallory, browser_of):
    """Only a user name or a verified address names an account that exists."""
    thief = browser_of(mallory)
    assert thief.get("/accounts/email/").status_code == 404
    assert thief.post("/accounts/email/", {"action_add": "", "email": "ben@example.org"}).status_code == 404
    mallory.email = "ben@example.org"
    mallory.save()
    text = invite("Ben Adams <ben@example.org>")
    assert len(links(text)) == 1
    assert [m.user.username for m in Membership.objects.filter(role="reviewer", team__slug="payments")] == [
        "ben@example.org"
    ]
    assert not mallory.memberships.filter(team__slug="payments").exists()


def test_a_verified_address_finds_its_account(invite, mallory):
    EmailAddress.objects.create(user=mallory, email="mallory@example.org", verified=True)
    assert links(invite("mallory@example.org")) == []
    assert mallory.memberships.filter(team__slug="payments").exists()


@pytest.mark.parametrize("page", ["email/", "password/reset/", "confirm-email/", "login/code/confirm/"])
def test_pages_about_addresses_are_not_there(client, page):
    assert client.get(f"/accounts/{page}").status_code == 404


def test_a_link_works_once_and_is_in_no_later_page(invite, alice, browser_of, client):
    address = links(invite("nora"))[0]
    assert client.post(address).status_code == 302
    assert Client().post(address).status_code == 410
    assert "/sign-in/" not in browser_of(alice).get("/team/").content.decode()


def test_fifty_come_at_once_and_fifty_one_do_not(invite):
    assert len(links(invite("\n".join(f"person{n}" for n in range(50))))) == 50
    text = invite("\n".join(f"other{n}" for n in range(51)))
    assert "At most 50 people at once; these are 51." in text
    assert not get_user_model().objects.filter(username__startswith="other").exists()


@pytest.mark.parametrize(
    ("people", "role", "why"),
    [
        ("", "viewer", "Paste at least one name or address."),
        (" \n , \n", "viewer", "Paste at least one name or address."),
        ("nora\na b<\notto", "viewer", "Line 2, a b<:"),
        ("nora\nBen <not an address>", "viewer", "Line 2, Ben <not an address>: this is no e-mail address."),
        ("nora\nx" + "y" * 200, "viewer", "Line 2, x"),
        ("nora\nNORA", "viewer", "Line 2: NORA is in the list twice."),
        ("nora\nAlice", "viewer", "alice is already in Payments"),
        ("nora", "king", "A role is one of viewer, reviewer, lead, admin."),
    ],
)
def test_an_invalid_line_is_named_and_nobody_is_invited(invite, people, role, why):
    text = invite(people, role=role)
    assert "Nobody was added." in text
    assert why in text
    assert (Membership.objects.count(), get_user_model().objects.count(), SignInLink.objects.count()) == (1, 1, 0)
    assert not Event.objects.filter(verb="person.added").exists()
    assert people.strip() in text  # what was pasted is still there


def test_all_that_is_wrong_is_named_at_once():
    with pytest.raises(ValidationError) as refused:
        read_list("a b\nfine\n@@\nfine")
    assert len(refused.value.messages) == 3


def test_lists_are_read_as_mail_programs_write_them():
    assert read_list('"Adams, Ben" <ben@example.org>, Nora Berg <nora@example.org>\r\notto ,, carl') == [
        Invitee("ben@example.org", "ben@example.org", "Adams, Ben"),
        Invitee("nora@example.org", "nora@example.org", "Nora Berg"),
        Invitee("otto"),
        Invitee("carl"),
    ]


def test_somebody_with_an_account_gets_no_link(invite, mallory, alice, browser_of):
    browser_of(mallory)
    text = invite("mallory", role="viewer")
    assert "in Payments now as Viewer, and signs in as before" in re.sub(r"</?b>", "", text)
    assert links(text) == []
    text = browser_of(alice).post(f"/team/{membership(mallory).pk}/link/", follow=True).content.decode()
    assert "Only an operator can create a link" in text
    assert SignInLink.objects.count() == 0


def test_no_admin_of_a_team_becomes_the_operator(invite, alice, browser_of):
    """A link lets in whoever holds it: one for the installation's superuser would open Django's admin."""
    get_user_model().objects.create_superuser("root")
    assert links(invite("root")) == []
    person = Membership.objects.get(user__username="root")
    browser_of(alice).post(f"/team/{person.pk}/link/")
    assert SignInLink.objects.count() == 0


def test_an_invited_person_is_listed_until_the_first_sign_in(invite, alice, browser_of, client):
    address = links(invite("nora"))[0]
    admin = browser_of(alice)
    assert "Invited, not signed in yet" in (text := admin.get("/team/").content.decode())
    assert "link until" in text
    client.post(address)
    assert "Invited, not signed in yet" not in admin.get("/team/").content.decode()


def test_a_new_link_ends_the_one_before(invite, alice, browser_of):
    first = links(invite("nora"))[0]
    nora = Membership.objects.get(user__username="nora")
    second = links(browser_of(alice).post(f"/team/{nora.pk}/link/").content.decode())[0]
    assert Client().post(first).status_code == 410
    assert Client().post(second).status_code == 302
    assert Event.objects.filter(verb="person.link_made").count() == 1


def test_a_withdrawn_invitation_opens_nothing_and_can_be_made_again(invite, alice, browser_of):
    address = links(invite("nora"))[0]
    browser_of(alice).post(f"/team/{Membership.objects.get(user__username='nora').pk}/remove/")
    assert Client().post(address).status_code == 410
    assert Event.objects.filter(verb="person.invitation_withdrawn").count() == 1
    assert len(links(invite("nora"))) == 1


@pytest.mark.parametrize("person", ["lena", "bob", "vera"])
def test_only_an_admin_invites(person, request, browser_of, alice):
    client = browser_of(request.getfixturevalue(person))
    before = Membership.objects.count()
    assert client.post("/team/invite/", {"team": "payments", "people": "x", "role": "admin"}).status_code == 403
    assert Membership.objects.count() == before


def test_nobody_invites_into_a_team_of_others(mallory, team, browser_of):
    response = browser_of(mallory).post("/team/invite/", {"team": "payments", "people": "x", "role": "admin"})
    assert response.status_code == 404
    assert Membership.objects.filter(team=team).count() == 0


def test_the_links_are_kept_by_no_cache(alice, browser_of):
    response = browser_of(alice).post("/team/invite/", {"team": "payments", "people": "nora", "role": "viewer"})
    assert response.headers["Cache-Control"] == "no-store"


def test_the_team_page_costs_the_same_with_many_people(invite, alice, browser_of, django_assert_num_queries):
    client = browser_of(alice)
    client.get("/team/")
    with CaptureQueriesContext(connection) as few:
        client.get("/team/")
    queries = len(few)
    invite("\n".join(f"person{n}" for n in range(30)))
    with django_assert_num_queries(queries):
        page = client.get("/team/").content.decode()
    assert [f"person{n}" in page for n in range(30)] == [True] * 30


# Remove --------------------------------------------------------------------------------------------------------------


def test_a_removed_person_loses_tokens_and_pages(alice, bob, team, browser_of, ask):
    action, token, client = ask(PUSH), make_token(team, user=bob), browser_of(bob)
    assert client.get(f"/actions/{action.pk}/").status_code == 200
    browser_of(alice).post(f"/team/{membership(bob).pk}/remove/")
    assert find_token(token) is None
    assert client.get(f"/actions/{action.pk}/").status_code == 404
    assert client.get(f"/api/v1/actions/{action.pk}").status_code == 401
    assert Event.objects.get(verb="person.removed").data == {"role": "reviewer"}


def test_a_removed_person_keeps_other_teams(alice, bob, team, other_team, browser_of):
    Membership.objects.create(team=other_team, user=bob, role="viewer")
    here, there, client = make_token(team, user=bob), make_token(other_team, user=bob), browser_of(bob)
    browser_of(alice).post(f"/team/{membership(bob).pk}/remove/")
    assert find_token(here) is None
    assert find_token(there).user == bob
    text = client.get("/team/").content.decode()
    assert "Other" in text
    assert "Payments" not in text


@pytest.mark.parametrize("change", [("remove", {}), ("role", {"role": "viewer"})])
def test_the_vote_of_who_left_or_lost_the_role_does_not_count(alice, bob, lena, browser_of, ask, decide, change):
    action = ask(FORCE)
    decide(action, by=bob)
    verb, data = change
    browser_of(alice).post(f"/team/{membership(bob).pk}/{verb}/", data)
    decide(action, by=lena)
    action.refresh_from_db()
    assert action.status == Status.PENDING
    decide(action, by=alice)
    action.refresh_from_db()
    assert action.status == Status.APPROVED


def test_a_closed_account_is_no_admin_who_stays(alice, bob, browser_of):
    Membership.objects.filter(user=bob).update(role="admin")
    get_user_model().objects.filter(pk=bob.pk).update(is_active=False)
    response = browser_of(alice).post(f"/team/{membership(alice).pk}/remove/", follow=True)
    assert "is the only admin of Payments" in response.content.decode()


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_demote_each_other_at_once_leave_one(alice, bob, browser_of):
    Membership.objects.filter(user=bob).update(role="admin")
    clients = [(browser_of(alice), membership(bob).pk), (browser_of(bob), membership(alice).pk)]
    threads = [
        threading.Thread(target=client.post, args=(f"/team/{pk}/role/", {"role": "viewer"})) for client, pk in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Membership.objects.filter(role="admin").count() == 1


# My phone ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "only_here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000", True),
        ("http://0.0.0.0:8000", True),
        ("http://192.168.1.7:8000", False),
        ("https://handrail.example.org", False),
        ("http://laptop.local:8000", False),
    ],
)
def test_an_address_that_no_phone_can_open_is_known(url, only_here):
    assert phone.is_only_here(url) == only_here


def test_a_page_of_this_machine_alone_says_what_to_set(vera, browser_of):
    text = browser_of(vera).post("/connect/phone/").content.decode()
    assert "HANDRAIL_HOST=0.0.0.0" in text
    assert "HANDRAIL_PUBLIC_URL=http://" in text
    assert SignInLink.objects.count() == 0


def test_the_code_signs_the_same_person_in_once_for_ten_minutes(vera, browser_of, client, settings):
    settings.HANDRAIL_PUBLIC_URL = "http://192.168.1.7:8000"
    here = browser_of(vera)
    assert "plain http" in here.get("/connect/phone/").content.decode()
    assert SignInLink.objects.count() == 0
    text = here.post("/connect/phone/").content.decode()
    link = SignInLink.objects.get(user=vera)
    assert 590 < (link.expires_at - link.created_at).total_seconds() < 610
    assert 'class="qr"' in text
    address = links(text)[0]
    assert client.post(address).status_code == 302
    assert "vera" in client.get("/me/").content.decode()
    assert "vera" in here.get("/me/").content.decode()
    assert Client().post(address).status_code == 410
    assert Event.objects.get(verb="person.link_made").data == {"how": "phone"}


def test_over_https_nothing_is_warned_of(vera, browser_of, settings):
    settings.HANDRAIL_PUBLIC_URL = "https://handrail.example.org"
    assert "plain http" not in browser_of(vera).post("/connect/phone/").content.decode()


# On the live product -------------------------------------------------------------------------------------------------


def test_removal_ends_sockets_and_tokens_within_thirty_seconds(product):
    admin = Visitor.named(product, "root-of-people", "admin")
    text = html.unescape(admin.post("/team/invite/", {"team": "main", "people": "leaver", "role": "lead"}, at="/team/"))
    leaver = Visitor(product, links(text)[0])
    token = product.person_token("leaver", "lead")
    assert product.get("/api/v1/me", token).status == 200
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in leaver.cookies if not cookie.secure)
    whose = [
        {"Cookie": cookies, "Origin": product.desk} | product.desk_host,
        {"Authorization": f"Bearer {token}"},
    ]

    async def main():
        async with aiohttp.ClientSession() as session:
            sockets = [await session.ws_connect(f"{product.url}/ws/live", headers=headers) for headers in whose]
            for socket in sockets:
                assert (await socket.receive_json(timeout=10))["upto"] > 0
            removed = time.monotonic()
            pk = re.search(r"/team/([0-9a-f-]+)/remove/", _row(admin, "leaver"))[1]
            await asyncio.to_thread(admin.post, f"/team/{pk}/remove/")
            assert product.get("/api/v1/me", token).status == 401
            assert "You aren't in a team." in leaver.get("/team/")
            codes = await asyncio.gather(*(_code_of_the_end(socket) for socket in sockets))
            assert time.monotonic() - removed < 30
            assert codes == [4401, 4401]

    asyncio.run(asyncio.wait_for(main(), 60))


async def _code_of_the_end(socket) -> int:
    async for _ in socket:
        pass
    return socket.close_code


def _row(admin, name) -> str:
    """The part of the Team page about one person."""
    text = admin.get("/team/")
    start = re.search(rf'<span class="row-title">\s*{name}', text).start()
    return text[start : text.index("</li>", start)]
