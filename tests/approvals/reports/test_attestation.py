"""The decision about a call as an in-toto statement in a DSSE envelope, for verifiers that are not ours."""

import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.db import connection
from google.protobuf.json_format import MessageToDict, Parse
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from approvals.actions import gate
from approvals.models import Action
from dashboard.event_log import triggers
from dashboard.keys import log_key
from dashboard.models import Event
from handrail_verify import attestation
from tests.support import CHECKOUT

from ..conftest import FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db
SCHEMA = json.loads((CHECKOUT / "docs" / "schemas" / "decision.schema.json").read_text())


@pytest.fixture
def attested(api, agent_token):
    """`attested(action)`: (status, JSON) of the API's answer."""

    def get(action):
        response = api(agent_token).get(f"/api/v1/actions/{action.pk}/attestation")
        return response.status_code, response.json()

    return get


def public_key():
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(b64decode(log_key.public_key())))


def verified(envelope: dict) -> dict:
    """Return the predicate, as the reference verifiers of DSSE and in-toto read it."""
    read = Envelope.from_dict(json.loads(json.dumps(envelope)))
    read.verify([public_key()], threshold=1)
    statement = Statement.copy_from_pb(Parse(read.payload, Message()))
    statement.validate()
    assert statement.pb.predicate_type == "urn:handrail:decision:v1"
    predicate = json.loads(read.payload)["predicate"]
    assert MessageToDict(statement.pb.predicate) == predicate
    jsonschema.validate(predicate, SCHEMA)
    return predicate | {"subject": statement.pb.subject[0].digest["sha256"]}


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_an_approval_by_two_people_names_both_and_the_call(ask, decide, attested, bob, alice):
    action = ask(FORCE)
    decide(action, by=bob)
    assert attested(action)[0] == 409
    decide(action, by=alice)
    status, envelope = attested(action)
    assert status == 200
    found = verified(envelope)
    assert (found["verdict"], found["quorum"], found["subject"]) == ("approve", 2, action.digest)
    assert [(each["label"], each["verdict"]) for each in found["people"]] == [("bob", "approve"), ("alice", "approve")]
    assert found["decidedBy"]["label"] == "alice"
    in_log = Event.objects.filter(subject_id=str(action.pk)).order_by("seq").values_list("seq", "verb", "hash")
    assert [(each["seq"], each["verb"], each["hash"]) for each in found["log"]["events"]] == list(in_log)


def test_denials_and_decisions_of_the_policy_are_attested_too(ask, decide, attested, bob):
    denied = ask(PUSH)
    decide(denied, "deny", by=bob, comment="not today")
    found = verified(attested(denied)[1])
    assert (found["verdict"], [each["label"] for each in found["people"]]) == ("deny", ["bob"])
    for arguments, verdict in ((LIST, "approve"), (WIPE, "deny")):
        found = verified(attested(ask(arguments))[1])
        assert (found["verdict"], found["people"], found["quorum"]) == (verdict, [], None)
        assert found["decidedBy"]["label"].startswith("policy ")
        assert len(found["policy"]["sha256"]) == 64


def test_a_call_that_was_sent_back_is_attested_as_denied(ask, decide, attested, bob):
    action = ask(PUSH)
    decide(action, "deny", by=bob, send_back=True, comment="run the tests first")
    found = verified(attested(action)[1])
    people = [(each["label"], each["verdict"]) for each in found["people"]]
    assert (found["verdict"], people) == ("deny", [("bob", "deny")])


def test_an_edit_is_attested_as_the_call_that_was_approved(ask, decide, attested, bob):
    action = ask(PUSH)
    asked = action.digest
    decide(action, "edit", by=bob, arguments={"command": "git push origin dev"})
    action.refresh_from_db()
    found = verified(attested(action)[1])
    assert found["subject"] == action.digest != asked
    assert [each["label"] for each in found["people"]] == ["bob"]


def test_it_holds_no_argument_and_no_comment(ask, decide, attested, bob):
    action = ask({"command": "git push origin wxyz"})
    decide(action, by=bob, comment="comment-abc")
    payload = b64decode(attested(action)[1]["payload"])
    assert action.digest.encode() in payload
    assert not re.search(rb"wxyz|comment-abc", payload)


def test_nothing_is_signed_that_is_undecided_or_that_the_log_contradicts(ask, decide, attested, bob):
    action = ask(PUSH)
    assert (attested(action)[0], attested(action)[1]["code"]) == (409, "undecided")
    decide(action, by=bob)
    Action.objects.filter(pk=action.pk).update(digest="0" * 64)
    assert attested(action)[1]["code"] == "log_differs"
    Action.objects.filter(pk=action.pk).update(digest=action.digest)
    assert attested(action)[0] == 200


def test_nothing_is_signed_once_an_event_was_changed(ask, decide, attested, bob):
    action = ask(PUSH)
    decide(action, by=bob)
    triggers.remove(connection)
    Event.objects.filter(subject_id=str(action.pk), verb="action.approved").update(actor_label="lena")
    triggers.install(connection)
    status, answer = attested(action)
    assert (status, answer["code"]) == (409, "log_differs")


def test_an_answer_that_was_taken_back_is_not_attested(ask, decide, attested, person, bob, alice):
    action = ask(FORCE)
    decide(action, by=alice)
    decide(action, by=bob)
    gate.take_back(Action.objects.get(pk=action.pk), caller=person(bob))
    assert attested(action)[1]["code"] == "undecided"
    decide(action, "deny", by=bob)
    found = verified(attested(action)[1])
    answers = [(each["label"], each["verdict"]) for each in found["people"]]
    assert (found["verdict"], answers[-1]) == ("deny", ("bob", "deny"))


def test_nobody_of_another_team_reads_it(ask, decide, bob, api, other_agent_token):
    action = ask(PUSH)
    decide(action, by=bob)
    assert api(other_agent_token).get(f"/api/v1/actions/{action.pk}/attestation").status_code == 404


# Verifiers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def envelope(ask, decide, attested, bob):
    action = ask(PUSH)
    decide(action, by=bob)
    return attested(action)[1]


def test_the_reference_verifier_refuses_a_changed_payload(envelope):
    payload = b64decode(envelope["payload"]).replace(b'"approve"', b'"deny"')
    changed = Envelope.from_dict(envelope | {"payload": b64encode(payload).decode()})
    with pytest.raises(VerificationError):
        changed.verify([public_key()], threshold=1)


def test_our_verifier_says_what_it_attests_and_refuses_each_change(envelope, tmp_path, capsys):
    from handrail_verify.__main__ import main

    file, key = tmp_path / "decision.json", log_key.public_key()
    file.write_text(json.dumps(envelope))
    assert main(["attestation", str(file), "--key", key]) == 0
    assert "signed and unchanged: payments/A-1: approve by bob at " in capsys.readouterr().out
    other = b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    assert main(["attestation", str(file), "--key", other]) == 1
    payload = b64decode(envelope["payload"]).replace(b'"bob"', b'"ann"')
    for wrong in (
        envelope | {"payload": b64encode(payload).decode()},
        envelope | {"payloadType": "text/plain"},
        envelope | {"signatures": []},
        envelope | {"signatures": [{"sig": "AAAA"}, 3]},
        {"payload": 3},
        [],
    ):
        file.write_text(json.dumps(wrong))
        assert main(["attestation", str(file), "--key", key]) == 1
        assert capsys.readouterr().out.strip()


def test_a_signed_statement_of_another_kind_is_refused():
    key = Ed25519PrivateKey.generate()
    public = b64encode(key.public_key().public_bytes_raw()).decode()
    other = attestation.signed({"_type": attestation.STATEMENT, "predicateType": "urn:other"}, key)
    with pytest.raises(attestation.BadAttestation, match="something else"):
        attestation.verify(json.dumps(other).encode(), public)


def test_the_program_in_the_docs_verifies_it_and_refuses_a_change(envelope, tmp_path):
    page = (CHECKOUT / "docs" / "verifying.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "verify_decision.py").write_text(program)

    def run(content: dict):
        (tmp_path / "decision.json").write_text(json.dumps(content))
        command = [sys.executable, "verify_decision.py", "decision.json", log_key.public_key()]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    done = run(envelope)
    assert (done.returncode, done.stdout.split()[0]) == (0, "approve"), done.stderr
    assert "['bob']" in done.stdout
    changed = b64encode(b64decode(envelope["payload"]).replace(b'"bob"', b'"ann"')).decode()
    assert run(envelope | {"payload": changed}).returncode == 1
