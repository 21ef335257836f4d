"""Passkeys, an authenticator app and recovery codes: signing in with them, and who may add and remove them."""

import json
import re
import time

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver, reverse

from dashboard.keys.keyring import Unreadable
from dashboard.models import Event, Team
from dashboard.ops import bootstrap, doctor
from dashboard.people import passkeys
from dashboard.people.tokens import make_sign_in_link
from dashboard.site import second_factor
from tests.support.passkey import SoftPasskey

PASSWORD = "correct horse battery staple"
ADD, SIGN_IN = "/accounts/2fa/passkeys/add/", "/accounts/2fa/passkeys/login/"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_earlier_tries():
    cache.clear()
    yield
    cache.clear()


def verbs() -> list[str]:
    return list(Event.objects.order_by("id").values_list("verb", flat=True))


def options_in(page) -> dict:
    shown = re.search(r'data-passkey-options="([^"]*)"', page.content.decode()).group(1)
    return json.loads(shown.replace("&quot;", '"'))["publicKey"]


def add(client, passkey, name="Phone"):
    made = passkey.create(options_in(client.get(ADD)))
    return client.post(ADD, {"name": name, "credential": json.dumps(made)})


def sign_in(passkey, *, client=None, **signing):
    client = client or Client()
    options = client.get(SIGN_IN, headers={"Accept": "application/json"}).json()["request_options"]["publicKey"]
    return client, client.post(SIGN_IN, {"credential": json.dumps(passkey.use(options, **signing)), "next": "/me/"})


def is_signed_in(client) -> bool:
    return "_auth_user_id" in client.session


@pytest.fixture
def alices(alice):
    """Alice, who came by a link and has no password, in her browser."""
    client = Client()
    client.post(f"/sign-in/{make_sign_in_link(alice)}/")
    return client


@pytest.fixture
def with_password(alice):
    alice.set_password(PASSWORD)
    alice.save()
    return alice


def test_an_invited_person_adds_a_passkey_and_signs_in_with_it(alices, alice):
    passkey = SoftPasskey()
    added = add(alices, passkey)
    assert (added.status_code, added["Location"]) == (302, reverse("mfa_view_recovery_codes"))
    stored = Authenticator.objects.get(user=alice, type="webauthn")
    assert (stored.data["name"], stored.data["rp_id"]) == ("Phone", "handrail.localhost")
    client, answer = sign_in(passkey)
    assert (answer.status_code, answer["Location"]) == (302, "/me/")
    assert client.session["_auth_user_id"] == str(alice.pk)
    assert Event.objects.filter(verb="person.signed_in").latest("id").data == {"how": "passkey"}
    assert verbs() == ["person.signed_in", "person.passkey_added", "person.signed_in"]
    assert "Phone" in alices.get("/me/").content.decode()


def test_its_recovery_codes_are_shown_after_it_was_added(alices):
    add(alices, SoftPasskey())
    page = alices.get(reverse("mfa_view_recovery_codes")).content.decode()
    assert len(re.findall(r"<code>\d{8}</code>", re.sub(r"\s", "", page))) == 10
    download = alices.get(reverse("mfa_download_recovery_codes"))
    assert len(download.content.decode().splitlines()) == 10


@pytest.mark.parametrize("origin", ["http://handrail.localhost:3000", "https://evil.example", "http://127.0.0.1:8000"])
def test_a_passkey_used_on_another_site_or_port_does_not_sign_in(alices, origin):
    passkey = SoftPasskey()
    add(alices, passkey)
    client, _ = sign_in(passkey, origin=origin)
    assert not is_signed_in(client)
    assert is_signed_in(sign_in(passkey)[0])


def test_a_passkey_that_is_made_on_another_site_is_not_added(alices, alice):
    page = add(alices, SoftPasskey(origin="https://evil.example")).content.decode()
    assert "That code or passkey was not accepted." in page
    assert not passkeys.of(alice).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"response": {}}', '{"response": 1}', '"x"'])
def test_a_broken_answer_adds_nothing_and_signs_nobody_in(alices, alice, text):
    alices.get(ADD)
    assert alices.post(ADD, {"name": "x", "credential": text}).status_code == 200
    assert not passkeys.of(alice).exists()
    client = Client()
    client.get(SIGN_IN, headers={"Accept": "application/json"})
    assert client.post(SIGN_IN, {"credential": text}).status_code == 302
    assert not is_signed_in(client)


def test_an_answer_does_not_sign_in_twice(alices):
    passkey = SoftPasskey()
    add(alices, passkey)
    client = Client()
    options = client.get(SIGN_IN, headers={"Accept": "application/json"}).json()["request_options"]["publicKey"]
    form = {"credential": json.dumps(passkey.use(options))}
    client.post(SIGN_IN, form)
    client.post("/accounts/logout/")
    client.post(SIGN_IN, form)
    assert not is_signed_in(client)


def test_a_closed_account_does_not_come_in_with_its_passkey(alices, alice):
    passkey = SoftPasskey()
    add(alices, passkey)
    alice.is_active = False
    alice.save()
    assert not is_signed_in(sign_in(passkey)[0])


def test_signing_in_with_passkeys_is_slowed_down(alices):
    passkey = SoftPasskey()
    add(alices, passkey)
    answers = [Client().post(SIGN_IN, {"credential": "{}"}) for _ in range(12)]
    assert answers[-1].status_code == 429
    assert '<p class="mark-line">Handrail</p>' in answers[-1].content.decode()
    assert not is_signed_in(sign_in(passkey)[0])


def test_a_password_takes_the_second_step_of_who_has_a_passkey(with_password, alice):
    passkey, client = SoftPasskey(), Client()
    passkey.add_to(alice)
    passkey.user_handle = b""
    answer = client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert (answer["Location"], is_signed_in(client)) == (reverse("mfa_authenticate"), False)
    made = passkey.use(options_in(client.get(reverse("mfa_authenticate"))))
    client.post(reverse("mfa_authenticate"), {"credential": json.dumps(made)})
    assert is_signed_in(client)
    assert Event.objects.filter(verb="person.signed_in").latest("id").data == {"how": "password and passkey"}


def confirm_by_password(client):
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})


def test_an_app_is_a_second_step_and_a_recovery_code_replaces_it_once(
    with_password, browser_of, alice, django_capture_on_commit_callbacks
):
    client = browser_of(alice)
    assert client.get(reverse("mfa_activate_totp"))["Location"].startswith("/accounts/reauthenticate/")
    confirm_by_password(client)
    page = client.get(reverse("mfa_activate_totp")).content.decode()
    secret = re.search(r'<code class="exact">([A-Z2-7]+)</code>', page).group(1)
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(reverse("mfa_activate_totp"), {"code": code}).status_code == 302
    assert verbs() == ["person.codes_app_added", "person.recovery_codes_added"]
    stored = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored

    codes = re.findall(r"^\d{8}$", client.get(reverse("mfa_download_recovery_codes")).content.decode(), re.MULTILINE)
    assert _enter(codes[0])
    assert not _enter(codes[0])
    assert not _enter("000000")
    assert verbs().count("person.recovery_code_used") == 1
    assert verbs()[-1] == "person.sign_in_failed"


def _enter(code: str) -> bool:
    client = Client()
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert not is_signed_in(client)
    client.post(reverse("mfa_authenticate"), {"code": code})
    return is_signed_in(client)


def test_a_session_alone_neither_adds_nor_renames_nor_removes_a_passkey_nor_sets_a_password(alice, browser_of):
    stored = SoftPasskey().add_to(alice, "Phone")
    client = browser_of(alice)
    own = [ADD, reverse("mfa_edit_webauthn", args=[stored.pk]), reverse("mfa_remove_webauthn", args=[stored.pk])]
    own += ["/accounts/password/set/", reverse("mfa_generate_recovery_codes"), reverse("mfa_activate_totp")]
    for address in own:
        form = {"name": "x", "password1": PASSWORD, "password2": PASSWORD}
        for answer in (client.get(address), client.post(address, form)):
            assert answer.status_code == 302, address
            assert answer["Location"].startswith(reverse("mfa_reauthenticate_webauthn")), address
    alice.refresh_from_db()
    assert not alice.has_usable_password()
    assert [passkey.data["name"] for passkey in passkeys.of(alice)] == ["Phone"]


def test_a_passkey_confirms_who_it_is_and_what_is_then_changed_is_in_the_log(alice, browser_of):
    passkey, client = SoftPasskey(), browser_of(alice)
    stored = passkey.add_to(alice, "Phone")
    made = passkey.use(options_in(client.get(reverse("mfa_reauthenticate_webauthn"))))
    client.post(reverse("mfa_reauthenticate_webauthn"), {"credential": json.dumps(made)})
    client.post(reverse("mfa_edit_webauthn", args=[stored.pk]), {"name": "Old phone"})
    assert Event.objects.latest("id").data == {"was": "Phone", "name": "Old phone"}
    client.post(reverse("mfa_remove_webauthn", args=[stored.pk]))
    assert not passkeys.of(alice).exists()
    assert verbs()[-3:] == ["person.passkey_added", "person.passkey_renamed", "person.passkey_removed"]


def test_nobody_touches_the_passkey_of_another(alice, bob, alices):
    stored = SoftPasskey().add_to(bob, "Bob's")
    for name in ("mfa_edit_webauthn", "mfa_remove_webauthn"):
        assert alices.post(reverse(name, args=[stored.pk]), {"name": "x"}).status_code == 404
    assert [passkey.data["name"] for passkey in passkeys.of(bob)] == ["Bob's"]


def test_requiring_passkeys_takes_an_admin_who_confirms(alice, lena, team, browser_of):
    passkey, client = SoftPasskey(), browser_of(alice)
    form = {"team": team.slug, "passkeys": "required"}
    assert browser_of(lena).post("/team/passkeys/", form).status_code == 403
    assert client.post("/team/passkeys/", form)["Location"] == "/team/"
    assert Team.objects.get().requires_passkey
    assert verbs() == ["team.passkey_required"]
    passkey.add_to(alice)  # now a session alone is not enough
    off = {"team": team.slug, "passkeys": "optional"}
    asked = client.post("/team/passkeys/", off)
    assert asked["Location"].startswith(reverse("mfa_reauthenticate_webauthn"))
    assert Team.objects.get().requires_passkey


def test_passkeys_are_not_required_where_none_work(alice, team, browser_of, settings):
    settings.HANDRAIL_DESK_URL = "http://192.168.1.7:8000"
    form = {"team": team.slug, "passkeys": "required"}
    page = browser_of(alice).post("/team/passkeys/", form, follow=True).content.decode()
    assert "Nobody could approve critical actions" in page
    assert not Team.objects.get().requires_passkey


# allauth's addresses -------------------------------------------------------------------------------------------------


def test_each_page_of_allauth_is_ours(with_password, alice):
    """None of the names that allauth knows leads to a page in its look."""
    client, passkey = Client(), SoftPasskey()
    stored = passkey.add_to(alice)
    client.force_login(alice)
    confirm_by_password(client)
    seen = 0
    for name in sorted(key for key in get_resolver().reverse_dict if isinstance(key, str)):
        if not name.startswith(("account_", "mfa_")):
            continue
        keyed = name in ("mfa_edit_webauthn", "mfa_remove_webauthn")
        page = client.get(reverse(name, args=[stored.pk] if keyed else []))
        if page.status_code != 200 or "text/html" not in page["Content-Type"]:
            assert page.status_code in (200, 302, 404), name
            continue
        text, seen = page.content.decode(), seen + 1
        assert '<p class="mark-line">Handrail</p>' in text, name
        assert not re.search(r"<script(?![^>]*nonce=)", text), name
        assert not re.search(r"\sstyle=|\son\w+=", text), name
    assert seen >= 9


def test_what_is_switched_off_has_no_address():
    names = {key for key in get_resolver().reverse_dict if isinstance(key, str)}
    assert not names & {"mfa_signup_webauthn", "mfa_trust", "account_email", "account_reset_password"}


# Another address -----------------------------------------------------------------------------------------------------


def test_a_changed_address_warns_of_the_passkeys_that_it_breaks(alice, bob, settings):
    SoftPasskey().add_to(alice)
    assert (passkeys.warning(), bootstrap.warnings()) == ("", [])
    assert [found for found in doctor.examine(deep=False) if found.part == "passkeys"] == []
    settings.HANDRAIL_DESK_URL = settings.HANDRAIL_PUBLIC_URL = "https://desk.example.org"
    SoftPasskey().add_to(bob)
    words = "1 passkey of 1 person made for handrail.localhost can't be used at desk.example.org."
    assert bootstrap.warnings() == [f"{words} {passkeys.WAY_OUT}"]
    [found] = [found for found in doctor.examine(deep=False) if found.part == "passkeys"]
    assert (found.ok, found.needed, found.words) == (False, False, words)


def test_the_page_says_which_passkeys_do_not_work_and_why(alice, browser_of, settings):
    SoftPasskey().add_to(alice)
    settings.HANDRAIL_DESK_URL = "https://desk.example.org"
    page = browser_of(alice).get("/me/").content.decode()
    assert "doesn't work here: made for handrail.localhost" in re.sub(r"\s+", " ", page)
    settings.HANDRAIL_DESK_URL = "http://192.168.1.7:8000"
    page = browser_of(alice).get("/me/").content.decode()
    assert "Passkeys don't work at this address. Browsers offer it only over https." in re.sub(r"\s+", " ", page)
    assert "Add a passkey" not in page


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://desk.example.org", ""),
        ("http://handrail.localhost:8000", ""),
        ("http://192.168.1.7:8000", "Browsers offer it only over https."),
        ("https://192.168.1.7", "Passkeys need a host name, not an IP address."),
        ("http://127.0.0.1:8000", "Passkeys need a host name, not an IP address."),
    ],
)
def test_where_passkeys_work(url, why):
    assert passkeys.why_not_at(url) == why


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Desk.example.org:443", "https://desk.example.org"),
        ("https://desk.example.org:8443", "https://desk.example.org:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://handrail.localhost:80", "http://handrail.localhost"),
    ],
)
def test_the_origin_is_written_as_browsers_do(settings, url, origin):
    settings.HANDRAIL_DESK_URL = url
    assert passkeys.origin() == origin


def test_the_operator_resets_a_lost_second_factor(alice, with_password):
    SoftPasskey().add_to(alice)
    call_command("reset_second_factor", "alice")
    client = Client()
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert is_signed_in(client)
    assert "person.second_factor_reset" in verbs()


def test_a_secret_of_an_app_is_read_back_with_the_same_key_only(settings):
    adapter = second_factor.SecondFactors()
    kept = adapter.encrypt("JBSWY3DP")
    assert (adapter.decrypt(kept), "JBSWY3DP" in kept) == ("JBSWY3DP", False)
    settings.SECRET_KEY = "another"
    with pytest.raises(Unreadable):
        adapter.decrypt(kept)
