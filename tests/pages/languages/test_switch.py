"""Who sees which language: the cookie before the browser's wish, and English for programs and for what is recorded."""

import json

import pytest
from django.test import Client

from approvals.models import Grant, NotificationSettings, Revision
from dashboard.models import Event
from tests.approvals.conftest import FORCE, PUSH
from tests.approvals.notify.conftest import device, notify, push_service  # noqa: F401 (fixtures)

pytestmark = pytest.mark.django_db

GERMAN = {"headers": {"accept-language": "de-AT,de;q=0.9,en;q=0.5"}}
OTHER = {"headers": {"accept-language": "fi,sv;q=0.5"}}


def test_a_page_is_in_the_first_language_that_the_browser_asks_for(browser_of, bob):
    client = browser_of(bob)
    page = client.get("/", **GERMAN)
    assert '<html lang="de"' in page.content.decode()
    assert "Braucht Ihre Freigabe" in page.content.decode()
    assert page["Content-Language"] == "de"
    assert "Accept-Language" in page["Vary"]
    assert "Needs your approval" in client.get("/", **OTHER).content.decode()


def test_a_chosen_language_wins_and_stays_in_the_browser(browser_of, bob):
    client = browser_of(bob)
    answer = client.post("/language/", {"language": "de", "next": "/me/"})
    assert answer["Location"] == "/me/"
    assert "Farbschema" in client.get("/me/").content.decode()
    assert "Theme" in browser_of(bob).get("/me/").content.decode()
    client.post("/language/", {"language": "en"})
    assert "Theme" in client.get("/me/", **GERMAN).content.decode()


def test_a_language_can_be_chosen_before_signing_in(client):
    page = client.get("/accounts/login/").content.decode()
    assert '<button name="language" value="de" lang="de" aria-pressed="false">Deutsch</button>' in page
    client.post("/language/", {"language": "de", "next": "/accounts/login/?next=/waiting/"})
    page = client.get("/accounts/login/").content.decode()
    assert "Benutzername" in page
    assert '<button name="language" value="en" lang="en" aria-pressed="false">English</button>' in page


@pytest.mark.parametrize("wanted", ["", "fr", "de<script>", "de\r\nSet-Cookie: a=b", "x" * 5000])
def test_another_language_is_refused_and_changes_nothing(browser_of, bob, wanted):
    client = browser_of(bob)
    answer = client.post("/language/", {"language": wanted, "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/me/"
    assert "handrail-language" not in client.cookies
    assert not NotificationSettings.objects.filter(user=bob).exists()


def test_forms_of_other_sites_cannot_switch_it(bob):
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    assert client.post("/language/", {"language": "de"}).status_code == 403


def test_programs_get_english(ask):
    action = ask(PUSH)
    client = Client(**GERMAN)
    client.cookies["handrail-language"] = "de"
    wrong = client.get(f"/api/v1/actions/{action.pk}")
    assert wrong.status_code == 401
    assert "Content-Language" not in wrong or wrong["Content-Language"] == "en"
    assert wrong.json()["title"].isascii()
    assert "Freigabe" not in json.dumps(wrong.json())


def test_what_is_recorded_is_english(browser_of, bob, ask):
    client = browser_of(bob)
    client.post("/language/", {"language": "de"})
    asked = ask(PUSH)
    client.post(f"/actions/{asked.pk}/approve/", {"digest": asked.digest})
    other = ask({"command": "npm install left-pad"})
    client.post(
        f"/actions/{other.pk}/allow/", {"digest": other.digest, "covers": "exact", "minutes": "30", "uses": "5"}
    )
    critical = ask(FORCE)
    client.post(f"/actions/{critical.pk}/deny/", {"digest": critical.digest, "comment": "Nicht heute"})
    kept = [json.dumps(event.data, ensure_ascii=False) for event in Event.objects.all()]
    kept += list(Grant.objects.values_list("says", flat=True))
    kept += [json.dumps(revision.reasons, ensure_ascii=False) for revision in Revision.objects.all()]
    said = " ".join(kept).replace("Nicht heute", "")
    for word in ("Freigabe", "freigegeben", "Aufruf", "Richtlinie", "ä", "ö", "ü", "ß"):
        assert word not in said, said


def test_a_push_is_in_the_language_of_its_receiver(device, notify, ask, bob, lena):  # noqa: F811
    client = device(bob)
    client.post("/language/", {"language": "de"})
    device(lena)
    action = ask(PUSH)
    told = {message.payload["title"]: message.payload for message in notify()}
    german = told[f"Hoch, nicht umkehrbar: {action.title}"]
    assert "Bis " in german["body"]
    assert german["labels"]["deny"] == "Ablehnen"
    assert "labels" not in told[f"High, can't be undone: {action.title}"]


def test_the_scripts_get_their_texts_and_english_needs_none(client):
    assert "texts.js" not in client.get("/accounts/login/").content.decode()
    page = client.get("/accounts/login/", **GERMAN).content.decode()
    address = page.partition('<script defer src="/texts.js')[2].partition('"')[0]
    assert address.startswith("?de-")
    texts = client.get(f"/texts.js{address}", **GERMAN)
    assert texts.status_code == 200
    assert "immutable" in texts["Cache-Control"]
    assert "gerade eben" in texts.content.decode()
    assert client.post("/texts.js").status_code == 405
