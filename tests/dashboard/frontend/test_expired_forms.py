"""A form that could not be taken comes back with what was typed, and with nothing that was not meant to be kept."""

import re

import pytest
from django.test import Client

from approvals.models import Action, Decision
from tests.pages.conftest import PUSH, ask  # noqa: F401  the fixture

HERE = {"Sec-Fetch-Site": "same-origin"}
WORDS = "Use the staging branch <b>instead</b>."


@pytest.fixture
def strict(bob):
    """A browser of bob's that checks tokens, as real ones do."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    return client


def post(client, address, fields, **headers):
    return client.post(address, {"csrfmiddlewaretoken": "x" * 64, **fields}, headers=headers or HERE)


@pytest.mark.parametrize(("step", "field"), [("deny", "comment"), ("first", "text"), ("ask", "text")])
def test_an_expired_step_of_a_card_is_shown_again_with_its_text(ask, strict, step, field):  # noqa: F811
    action = ask(PUSH)
    response = post(strict, f"/actions/{action.pk}/{step}/", {"digest": action.digest, field: WORDS})
    page = response.content.decode()
    assert response.status_code == 403
    assert "This form had expired, so nothing was sent." in page
    shown = re.search(rf'<textarea name="{field}"[^>]*>(.*?)</textarea>', page, re.DOTALL)[1]
    assert shown == "Use the staging branch &lt;b&gt;instead&lt;/b&gt;."
    assert 'class="nav"' in page
    assert not Decision.objects.exists()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
    again = {"csrfmiddlewaretoken": token, "digest": action.digest, field: WORDS}
    assert strict.post(f"/actions/{action.pk}/{step}/", again, headers=HERE).status_code == 302


def test_an_expired_approval_shows_the_card_and_approves_nothing(ask, strict):  # noqa: F811
    action = ask(PUSH)
    response = post(strict, f"/actions/{action.pk}/approve/", {"digest": action.digest})
    assert (response.status_code, "Confirm: approve" in response.content.decode()) == (403, True)
    assert Action.objects.get(pk=action.pk).status == "pending"


def test_an_expired_edit_keeps_what_was_changed(ask, strict):  # noqa: F811
    action = ask(PUSH)
    fields = {"digest": action.digest, "command": "git push origin staging", "comment": "Not main.", "approve": "1"}
    page = post(strict, f"/actions/{action.pk}/edit/", fields).content.decode()
    assert "git push origin staging" in page
    assert "Not main." in page
    assert Action.objects.get(pk=action.pk).revision == 1


def test_an_answer_to_a_question_keeps_its_choice_and_words(ask, strict):  # noqa: F811
    options = [{"label": "A"}, {"label": "B"}]
    action = ask({"questions": [{"question": "Which?", "options": options}]}, tool="AskUserQuestion")
    fields = {"digest": action.digest, "q1": "2", "q1-own": WORDS}
    page = re.sub(r"\s+", " ", post(strict, f"/actions/{action.pk}/answer/", fields).content.decode())
    assert 'value="2" checked' in page
    assert "&lt;b&gt;instead&lt;/b&gt;" in page


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"X-None": "1"}]
)
def test_nothing_that_another_site_sent_fills_a_form(ask, strict, headers):  # noqa: F811
    action = ask(PUSH)
    response = post(strict, f"/actions/{action.pk}/deny/", {"digest": action.digest, "comment": WORDS}, **headers)
    page = response.content.decode()
    assert response.status_code == 403
    assert "This form expired" in page
    assert "staging" not in page


def test_other_forms_and_secrets_are_not_repeated(strict):
    secret = "s3cr3t-p4ssw0rd"
    headers = HERE | {"Referer": "http://testserver/secrets/new/?team=payments"}
    page = post(strict, "/secrets/new/", {"name": "KEY", "value": secret}, **headers).content.decode()
    assert secret not in page
    assert 'href="/secrets/new/?team=payments"' in page
    assert secret not in str(dict(strict.session))


def test_after_signing_in_again_the_text_is_there_once(ask, bob):  # noqa: F811
    action, client = ask(PUSH), Client()
    address = f"/actions/{action.pk}/deny/"
    asked = client.post(address, {"digest": action.digest, "comment": WORDS}, headers=HERE)
    assert asked.headers["Location"] == f"/accounts/login/?next={address}"
    client.force_login(bob)
    assert "&lt;b&gt;instead&lt;/b&gt;" in client.get(address).content.decode()
    assert "&lt;b&gt;instead" not in client.get(address).content.decode()


def test_an_edit_waits_for_no_sign_in_and_what_is_huge_neither(ask):  # noqa: F811
    action, client = ask(PUSH), Client()
    client.post(f"/actions/{action.pk}/edit/", {"command": "git push origin staging"}, headers=HERE)
    client.post(f"/actions/{action.pk}/deny/", {"comment": "x" * 9000}, headers=HERE)
    client.post(f"/actions/{action.pk}/deny/", {"comment": WORDS}, headers={"Sec-Fetch-Site": "cross-site"})
    assert "typed" not in client.session


@pytest.mark.parametrize(("address", "status"), [("/no-such-page/", 404), ("/team/invite/", 403)])
def test_pages_about_errors_have_the_navigation_for_who_is_signed_in(browser_of, vera, client, address, status):
    said = browser_of(vera).get(address) if status == 404 else browser_of(vera).post(address)
    assert said.status_code in (status, 404)
    assert 'class="nav"' in said.content.decode()
    assert 'class="nav"' not in client.get("/no-such-page/").content.decode()
