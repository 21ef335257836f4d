"""Approving a critical action takes a passkey of who has one, signed for this action, digest, verdict and person."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.management import CommandError, call_command
from fido2.webauthn import AuthenticatorData

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.actions.solo import SoloRequest
from approvals.actions.step_up import assertions, challenges
from approvals.models import Action, Decision, Delivery, DeliveryKind, Notice, PasskeyChallenge, Revision, Status, Tier
from approvals.notify import tokens
from approvals.policy.people import Takes
from dashboard.database import clock
from dashboard.models import Event, Membership, Team
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from handrail_verify.passkeys import in_event
from tests.approvals.conftest import FORCE, PUSH
from tests.support.passkey import SoftPasskey
from workspaces.models import Runner

pytestmark = pytest.mark.django_db
EXPORT = {"command": "git push --force origin main && git push --force origin next"}


@pytest.fixture
def bobs(bob):
    """Bob's passkey."""
    passkey = SoftPasskey()
    passkey.add_to(bob, "Bob's phone")
    return passkey


def answer_to(action, passkey, by, *, how=None, **signing) -> dict:
    made = challenges.create(action, caller=caller_of(by), digest=action.digest, **(how or {}))
    return {"challenge": made["id"], "credential": passkey.use(made["options"], **signing)}


def approve(action, by, answer=None, **how):
    return gate.decide(action, Answer("approve", action.digest, passkey=answer, **how), caller=caller_of(by))


def refused(action, by, answer, **how) -> str:
    """Return the code of the refusal, after which nothing has changed."""
    events = Event.objects.filter(subject_id=str(action.pk)).count()
    with pytest.raises(Problem) as problem:
        approve(action, by, answer, **how)
    action.refresh_from_db()
    assert (action.status, Decision.objects.filter(action=action).count()) == (Status.PENDING, 0)
    assert Event.objects.filter(subject_id=str(action.pk)).count() == events
    return problem.value.extra.get("code", problem.value.status)


def test_an_approval_with_a_passkey_counts_and_the_log_names_the_passkey(ask, bob, lena, bobs):
    action = ask(FORCE)
    approve(action, bob, answer_to(action, bobs, bob))
    assert approve(action, lena).status == Status.APPROVED  # she has none, and the team doesn't require one
    kept = Decision.objects.get(user=bob).assertion["passkey"]
    assert kept["name"] == "Bob's phone"
    said = Event.objects.get(verb="action.vote").data["passkey"]
    assert said == in_event(kept)
    assert "passkey" not in Event.objects.get(verb="action.approved").data
    assert Decision.objects.get(user=lena).assertion is None


def test_no_passkey_is_asked_of_a_person_without_one_or_for_a_call_below_critical(ask, bob, lena, bobs):
    assert approve(ask(PUSH), bob).status == Status.APPROVED
    assert approve(ask(FORCE), lena).status == Status.PENDING


def test_without_an_answer_it_is_refused(ask, bob, bobs):
    assert refused(ask(FORCE), bob, None) == "passkey_required"


def test_denying_takes_none(ask, bob, bobs):
    action = ask(FORCE)
    denied = gate.decide(action, Answer("deny", action.digest), caller=caller_of(bob))
    assert denied.status == Status.DENIED


def test_a_team_can_require_it_of_everybody(ask, lena, team):
    Team.objects.filter(pk=team.pk).update(requires_passkey=True)
    action = ask(FORCE)
    assert refused(action, lena, None) == "passkey_required"
    with pytest.raises(Problem, match="You have none yet"):
        challenges.create(action, caller=caller_of(lena), digest=action.digest)


def test_an_answer_is_used_once(ask, bob, bobs):
    first, second = ask(FORCE), ask(EXPORT)
    answer = answer_to(first, bobs, bob)
    approve(first, bob, answer)
    assert refused(second, bob, answer) == "passkey_refused"
    Decision.objects.all().delete()
    assert refused(first, bob, answer) == "passkey_refused"


def test_a_wrong_answer_uses_the_challenge_up(ask, bob, bobs):
    action = ask(FORCE)
    good = answer_to(action, bobs, bob)
    bad = json.loads(json.dumps(good))
    bad["credential"]["response"]["signature"] = "AAAA"
    assert refused(action, bob, bad) == "passkey_refused"
    assert refused(action, bob, good) == "passkey_refused"


def test_an_answer_for_another_action_is_refused(ask, bob, bobs):
    asked, other = ask(FORCE), ask(EXPORT)
    answer = answer_to(other, bobs, bob)
    assert refused(asked, bob, answer) == "passkey_refused"
    # Also when it names a challenge that was made for this one.
    own = answer_to(asked, bobs, bob)
    assert refused(asked, bob, {"challenge": own["challenge"], "credential": answer["credential"]}) == "passkey_refused"


def test_an_answer_for_the_call_before_an_edit_is_refused(ask, bob, lena, bobs, decide):
    action = ask(FORCE)
    answer = answer_to(action, bobs, bob)
    decide(action, "edit", by=lena, arguments=EXPORT)
    action.refresh_from_db()
    assert action.digest == Revision.objects.get(action=action, number=2).digest
    Decision.objects.all().delete()
    assert refused(action, bob, answer) == "passkey_refused"
    with pytest.raises(Problem) as stale:
        challenges.create(action, caller=caller_of(bob), digest="0" * 64)
    assert stale.value.extra["code"] == "digest_mismatch"


@pytest.mark.parametrize("how", [{"alone": True}, {"unheld": True}])
def test_an_answer_for_another_kind_of_approval_is_refused(ask, bob, bobs, how):
    action = ask(FORCE)
    assert refused(action, bob, answer_to(action, bobs, bob, how=how)) == "passkey_refused"


def test_an_answer_of_another_person_is_refused(ask, bob, lena, bobs):
    action, hers = ask(FORCE), SoftPasskey()
    hers.add_to(lena)
    assert refused(action, bob, answer_to(action, hers, lena)) == "passkey_refused"
    # A challenge for Bob, signed with Lena's passkey; and her challenge, signed with his.
    assert refused(action, bob, answer_to(action, hers, bob)) == "passkey_refused"
    assert refused(action, lena, answer_to(action, bobs, lena)) == "passkey_refused"


def test_an_answer_that_comes_too_late_is_refused(ask, bob, bobs, monkeypatch):
    action = ask(FORCE)
    answer, later = answer_to(action, bobs, bob), clock.now() + challenges.VALID
    monkeypatch.setattr(challenges.clock, "now", lambda: later)
    assert refused(action, bob, answer) == "passkey_refused"


@pytest.mark.parametrize(
    "signing",
    [
        {"origin": "http://handrail.localhost:3000"},
        {"origin": "https://evil.example"},
        {"flags": AuthenticatorData.FLAG.UP},
        {"flags": AuthenticatorData.FLAG.UV},
        {"key": ec.generate_private_key(ec.SECP256R1())},
    ],
    ids=["another port", "another site", "person not verified", "nobody present", "another key"],
)
def test_a_signature_that_proves_less_is_refused(ask, bob, bobs, signing):
    action = ask(FORCE)
    assert refused(action, bob, answer_to(action, bobs, bob, **signing)) == "passkey_refused"


@pytest.mark.parametrize("field", ["signature", "authenticatorData", "clientDataJSON"])
@pytest.mark.parametrize("value", [None, "", "AAAA", 7, "\u20ac", [], {}])
def test_an_answer_that_was_tampered_with_is_refused(ask, bob, bobs, field, value):
    action = ask(FORCE)
    answer = answer_to(action, bobs, bob)
    answer["credential"]["response"][field] = value
    assert refused(action, bob, answer) == "passkey_refused"


@pytest.mark.parametrize("answer", [{"challenge": None}, {"challenge": "x"}, {"credential": {}}, {"challenge": [1]}])
def test_an_invalid_answer_of_a_passkey_is_refused(ask, bob, bobs, answer):
    assert refused(ask(FORCE), bob, answer) == "passkey_refused"


@pytest.mark.parametrize("credential", [None, [], {}, "x", {"response": {}}, {"rawId": 1, "response": []}])
def test_an_invalid_credential_is_refused(ask, bob, bobs, credential):
    action = ask(FORCE)
    made = challenges.create(action, caller=caller_of(bob), digest=action.digest)
    assert refused(action, bob, {"challenge": made["id"], "credential": credential}) == "passkey_refused"


def test_a_passkey_of_another_address_does_not_count_and_still_asks_for_one(ask, bob):
    old = SoftPasskey(rp_id="old.example.org", origin="https://old.example.org")
    old.add_to(bob)
    action = ask(FORCE)
    assert refused(action, bob, None) == "passkey_required"
    with pytest.raises(Problem, match="Yours were made for old"):
        challenges.create(action, caller=caller_of(bob), digest=action.digest)


def test_an_edit_of_a_critical_call_waits_for_an_approval_with_the_passkey(ask, bob, bobs, decide, monkeypatch):
    monkeypatch.setattr(
        "approvals.evaluation.judge.PolicyResult.takes", Takes()
    )  # a policy that lets one person decide
    action = ask(FORCE)
    edited = decide(action, "edit", by=bob, arguments=EXPORT)
    assert (edited.status, edited.revision) == (Status.PENDING, 2)
    assert approve(edited, bob, answer_to(edited, bobs, bob)).status == Status.APPROVED


def test_the_only_approver_signs_that_it_is_alone(ask, alice, team, agent):
    Membership.objects.filter(team=team).exclude(user=alice).delete()
    passkey = SoftPasskey()
    passkey.add_to(alice)
    action, alone = ask(FORCE), SoloRequest(agent.name, clock.now() - timedelta(minutes=5), "password")
    assert refused(action, alice, None, alone=alone) == "passkey_required"
    assert refused(action, alice, answer_to(action, passkey, alice), alone=alone) == "passkey_refused"
    answer = answer_to(action, passkey, alice, how={"alone": True})
    assert approve(action, alice, answer, alone=alone).status == Status.APPROVED
    assert Decision.objects.get().assertion.keys() == {"solo", "signed_in_at", "how", "passkey"}
    assert assertions.faults(Decision.objects.get()) == []


def test_a_token_of_the_person_cannot_approve_it(ask, bob, bobs, token_of, post):
    action = ask(FORCE)
    body = {"verdict": "approve", "digest": action.digest}
    status, said = post(token_of(bob), f"/api/v1/actions/{action.pk}/decision", body)
    assert (status, said["code"], "no token can do it" in said["detail"]) == (403, "passkey_required", True)
    action.refresh_from_db()
    assert (action.status, Decision.objects.count()) == (Status.PENDING, 0)
    assert post(token_of(bob), f"/api/v1/actions/{action.pk}/decision", body | {"verdict": "deny"})[0] == 200


def test_an_approval_without_an_envelope_is_signed_as_such(ask, bob, bobs, workspace):
    held = {"landlock": 6, "seccomp": True, "mount_view": True}
    workspace.runner = Runner.objects.create(
        host="here", capabilities={workspace.environment.driver: {"envelope": held}}
    )
    workspace.save()
    action = ask(FORCE, workspace=workspace, mode="broker")
    answer = answer_to(action, bobs, bob, how={"unheld": True})
    approve(action, bob, answer, unheld=True)
    decision = Decision.objects.get()
    assert (decision.unheld, assertions.faults(decision)) == (True, [])
    decision.unheld = False
    assert assertions.faults(decision) != []


def test_a_notification_sent_while_it_was_less_than_critical_does_not_approve_it(ask, bob, bobs):
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(undo="yes")
    action.refresh_from_db()
    notice = Notice.objects.create(action=action, user=bob, digest=action.digest, created_at=clock.now())
    named = {"kind": DeliveryKind.ASK, "via": "Browser", "digest": action.digest}
    delivery = Delivery.objects.create(notice=notice, user=bob, created_at=clock.now(), **named)
    made = tokens.make(delivery, action, "session")
    Action.objects.filter(pk=action.pk).update(tier=Tier.CRITICAL)
    with pytest.raises(Problem) as refusal:
        tokens.use(made["approve"], caller=caller_of(bob), session_key="session")
    action.refresh_from_db()
    assert (refusal.value.status, action.status, Decision.objects.count()) == (403, Status.PENDING, 0)


# On pages ------------------------------------------------------------------------------------------------------------


def test_the_card_asks_for_it_and_its_form_brings_it(ask, bob, bobs, browser_of):
    action, browser = ask(FORCE), browser_of(bob)
    card = f"/actions/{action.pk}/"
    page = browser.get(card).content.decode()
    assert f'data-passkey-for="{card}approve/"' in page
    form = {"digest": action.digest}
    without = browser.post(f"{card}approve/", form)
    assert (without.status_code, "Approving this takes a passkey." in without.content.decode()) == (403, True)
    made = browser.post(f"{card}passkey/", form).json()
    answer = {"challenge": made["id"], "credential": bobs.use(made["options"])}
    assert browser.post(f"{card}approve/", form | {"passkey": json.dumps(answer)}).status_code == 302
    assert "confirmed with passkey Bob&#x27;s phone" in browser.get(card).content.decode().replace("\n", " ")
    log = browser.get(f"/log/?subject={action.pk}").content.decode()
    assert "confirmed with passkey Bob&#x27;s phone" in log


@pytest.mark.parametrize("text", ["[]", "{", "7", "null", "{}", "x" * 20_000, "[" * 9_000])
def test_a_form_with_a_broken_answer_is_refused(ask, bob, bobs, browser_of, text):
    action = ask(FORCE)
    answer = browser_of(bob).post(f"/actions/{action.pk}/approve/", {"digest": action.digest, "passkey": text})
    action.refresh_from_db()
    assert (answer.status_code, action.status, Decision.objects.count()) == (403, Status.PENDING, 0)


def test_a_group_does_not_get_around_it(ask, bob, bobs, browser_of, monkeypatch):
    monkeypatch.setattr("approvals.evaluation.judge.PolicyResult.takes", Takes())
    found = [ask(FORCE, session=str(number)) for number in range(4)]
    rows = [f"{action.pk}:{action.digest}" for action in found]
    browser = browser_of(bob)
    answer = browser.post(f"/waiting/alike/{found[0].pk}/", {"verdict": "approve", "action": rows}, follow=True)
    assert "Approving this takes a passkey." in answer.content.decode()
    assert {Status.PENDING} == {gate.find(action.pk, caller=caller_of(bob)).status for action in found}


def test_a_challenge_is_made_for_who_may_decide_only(ask, vera, mallory, bob, bobs, browser_of):
    action = ask(FORCE)
    form = {"digest": action.digest}
    assert browser_of(vera).post(f"/actions/{action.pk}/passkey/", form).status_code == 403
    assert browser_of(mallory).post(f"/actions/{action.pk}/passkey/", form).status_code == 404
    assert browser_of(bob).get(f"/actions/{action.pk}/passkey/", form).status_code == 405
    assert PasskeyChallenge.objects.count() == 0
    assert browser_of(bob).post(f"/actions/{action.pk}/passkey/", {"digest": "0" * 64}).status_code == 409


# Later ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def confirmed(ask, bob, bobs):
    action = ask(FORCE)
    approve(action, bob, answer_to(action, bobs, bob))
    return Decision.objects.get()


def test_a_stored_signature_is_verified_again_after_the_passkey_is_removed(confirmed, bob):
    said = StringIO()
    assertions.passkeys.of(bob).delete()
    call_command("verify_passkeys", stdout=said)
    assert said.getvalue() == "1 approvals with passkeys: each signature is right, and each is in the log.\n"


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"signature": "MEUCIQ"}, "The signature is wrong."),
        ({"nonce": "0" * 64}, "It was signed for another action, digest, verdict, person or time."),
        ({"expires_at": "2027-01-01T00:00:00+00:00"}, "It was signed for another action"),
        ({"rp_id": "example.org"}, "It was signed for another relying party."),
        ({"origin": "https://example.org"}, "It was signed on another site."),
        ({"name": "Lena's phone"}, "The log has no approval with this assertion."),
        ({"public_key": "o"}, "What was kept can't be read."),
        ({"client_data": None}, "What was kept can't be read."),
    ],
)
def test_a_changed_signature_is_found(confirmed, changed, fault):
    Decision.objects.update(assertion={"passkey": confirmed.assertion["passkey"] | changed})
    said = StringIO()
    with pytest.raises(CommandError, match="1 of 1 approvals are not proven"):
        call_command("verify_passkeys", stdout=said)
    assert fault in said.getvalue()


def test_an_assertion_moved_to_another_decision_is_found(confirmed, ask, lena):
    other = ask(EXPORT)
    approve(other, lena)
    moved = Decision.objects.get(user=lena)
    moved.assertion = confirmed.assertion
    assert "It was signed for another action, digest, verdict, person or time." in assertions.faults(moved)


def test_a_signature_with_a_key_that_was_never_added_is_found(confirmed, bob):
    forged = SoftPasskey()
    made = PasskeyChallenge.objects.create(
        user=bob,
        action=confirmed.action,
        digest=confirmed.revision.digest,
        verdict="approve",
        expires_at=clock.now() + challenges.VALID,
    )
    options = {"challenge": assertions.websafe_encode(made.bytes)}
    response = forged.use(options)["response"]
    kept = confirmed.assertion["passkey"] | {
        "nonce": made.nonce,
        "expires_at": made.expires_at.isoformat(),
        "public_key": assertions.websafe_encode(assertions.cbor.encode(dict(forged.public_key))),
        "authenticator_data": response["authenticatorData"],
        "client_data": response["clientDataJSON"],
        "signature": response["signature"],
    }
    confirmed.assertion = {"passkey": kept}
    assert assertions.faults(confirmed) == [
        "The log has no approval with this assertion.",
        "The log does not say that this person added a passkey with this key.",
    ]
