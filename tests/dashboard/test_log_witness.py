"""An outside witness time-stamps checkpoints, and whoever has its certificate sees when a log was as it is now."""

import json
import re
import subprocess
from base64 import b64decode
from datetime import UTC, datetime, timedelta

import pytest

from approvals import audit
from dashboard.database import clock
from dashboard.event_log import checkpoints, witness
from dashboard.keys import log_key
from dashboard.models import Actor, Event
from dashboard.ops import doctor, tasks
from handrail_verify import canonical, signed
from tests.support.witness import Authority, serving

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("witness") / "tsa")


@pytest.fixture(autouse=True)
def asked(settings, tmp_path, authority):
    """The desk asks the authority, which answers again."""
    settings.HANDRAIL_CHECKPOINTS = tmp_path / "elsewhere" / "checkpoints"
    settings.HANDRAIL_WITNESS_CA, settings.HANDRAIL_WITNESS_MINUTES = str(authority.certificate), 60
    authority.answers, authority.asked = True, 0
    with serving(authority) as address:
        settings.HANDRAIL_WITNESS_URL = address
        yield address


def grow(team, count=2):
    for number in range(count):
        Event.objects.record(team, actor=Actor.system("test"), verb="team.changed", subject=team, data={"n": number})
    team.refresh_from_db()
    checkpoints.sign_all()
    return checkpoints.newest(team)


def export(team, tmp_path):
    events = Event.objects.filter(team=team).order_by("seq")
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(event.as_export()) + "\n" for event in events))
    return path


def verified(capsys, *arguments):
    """Return (exit status, what is printed) of `python -m approvals.audit verify`."""
    status = audit.main(["verify", *map(str, arguments)])
    return status, capsys.readouterr().out.strip()


def test_the_newest_checkpoint_is_time_stamped_and_the_next_after_an_hour(team, authority):
    first = grow(team)
    witness.stamp_all()
    witness.stamp_all()
    first.refresh_from_db()
    assert (bool(first.timestamp), authority.asked) == (True, 1)
    second = grow(team, 1)
    witness.stamp_all()
    assert (checkpoints.newest(team).timestamp, authority.asked) == ("", 1)
    type(first).objects.filter(pk=first.pk).update(at=clock.now() - timedelta(minutes=61))
    witness.stamp_all()
    second.refresh_from_db()
    assert (bool(second.timestamp), authority.asked) == (True, 2)
    assert tasks.SCHEDULED["dashboard.event_log.witness.stamp_all"] == 1


def test_an_outsider_sees_with_the_certificate_until_when_the_log_was_seen(team, authority, tmp_path, capsys):
    seq = grow(team).seq
    witness.stamp_all()
    log, kept = export(team, tmp_path), checkpoints.place_of(team)
    status, said = verified(capsys, log, "--checkpoint", kept, "--witness-ca", authority.certificate)
    assert status == 0
    assert re.fullmatch(
        rf"complete and unchanged: events 1 to {seq} of team {team.pk}; "
        rf"an outside witness saw it up to event {seq} at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
        said,
    )
    key = ["--key", log_key.public_key()]
    status, said = verified(capsys, log, "--checkpoint", kept, *key, "--witness-ca", authority.certificate)
    assert (status, said.startswith("complete and unchanged, by a checkpoint that the key signed")) == (0, True)
    assert verified(capsys, log, "--checkpoint", kept, *key)[0] == 0  # who asks nothing of the witness needs none


def test_a_checkpoint_signed_anew_has_no_timestamp_of_the_day_that_it_names(team, authority, tmp_path, capsys):
    made = grow(team)
    witness.stamp_all()
    made.refresh_from_db()
    made.at = datetime(2020, 1, 1, tzinfo=UTC)
    made.signature = signed.sign(canonical.dumps(checkpoints.body(made)), log_key.private_key(), checkpoints.PREFIX)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(checkpoints.as_download(made)))
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", path, "--witness-ca", authority.certificate)
    assert (status, said) == (
        1,
        f"The timestamp of the checkpoint of event {made.seq} does not verify. "
        "The timestamp does not verify: Mismatch between messages",
    )


def test_another_authority_or_a_changed_token_does_not_verify(team, authority, tmp_path, capsys):
    made = grow(team)
    witness.stamp_all()
    made.refresh_from_db()
    other = Authority(tmp_path / "other")
    log, kept = export(team, tmp_path), tmp_path / "kept.json"
    kept.write_text(json.dumps(checkpoints.as_download(made)))
    status, said = verified(capsys, log, "--checkpoint", kept, "--witness-ca", other.certificate)
    assert (status, f"The timestamp of the checkpoint of event {made.seq} does not verify." in said) == (1, True)
    changed = checkpoints.as_download(made)
    changed["signature"]["timestamp"] = changed["signature"]["timestamp"][:-40] + "A" * 40
    kept.write_text(json.dumps(changed))
    assert verified(capsys, log, "--checkpoint", kept, "--witness-ca", authority.certificate)[0] == 1


def test_without_a_timestamp_the_certificate_proves_nothing(team, authority, tmp_path, capsys):
    grow(team)
    log, kept = export(team, tmp_path), checkpoints.place_of(team)
    assert verified(capsys, log, "--checkpoint", kept, "--witness-ca", authority.certificate) == (
        1,
        "Certificates of a witness were given, but no checkpoint has a timestamp.",
    )
    assert verified(capsys, log, "--witness-ca", authority.certificate) == (
        1,
        "Timestamps are in checkpoints: --witness-ca needs --checkpoint.",
    )


def test_openssl_comes_to_the_same_answer(team, authority, tmp_path):
    made = grow(team)
    witness.stamp_all()
    made.refresh_from_db()
    (tmp_path / "body").write_bytes(checkpoints.signed_bytes(made))
    (tmp_path / "token.tsr").write_bytes(b64decode(made.timestamp))
    asked = ["openssl", "ts", "-verify", "-data", tmp_path / "body", "-in", tmp_path / "token.tsr"]
    done = subprocess.run([*asked, "-CAfile", authority.certificate], capture_output=True, text=True)
    assert (done.returncode, "Verification: OK" in done.stdout + done.stderr) == (0, True)


def test_a_witness_that_is_down_holds_up_nothing_and_is_asked_again(team, authority, caplog):
    authority.answers = False
    made = grow(team)
    witness.stamp_all()
    assert "no checkpoint is time-stamped" in caplog.text
    assert (made.signature != "", checkpoints.last_copied(team)) == (True, made.seq)
    assert [found.ok for found in doctor.examine(deep=False) if found.part == "witness"] == [True]
    type(made).objects.filter(pk=made.pk).update(at=clock.now() - timedelta(hours=3))
    [found] = [found for found in doctor.examine(deep=False) if found.part == "witness"]
    assert (found.ok, found.needed) == (False, False)
    assert found.words.startswith("Nothing was time-stamped since")
    authority.answers = True
    witness.stamp_all()
    assert [found.ok for found in doctor.examine(deep=False) if found.part == "witness"] == [True]


def test_an_answer_that_does_not_verify_is_not_kept(team, settings, tmp_path, caplog):
    settings.HANDRAIL_WITNESS_CA = str(Authority(tmp_path / "other").certificate)
    made = grow(team)
    witness.stamp_all()
    made.refresh_from_db()
    assert (made.timestamp, "does not verify" in caplog.text) == ("", True)


def test_without_an_address_nobody_is_asked(team, authority, settings):
    settings.HANDRAIL_WITNESS_URL = ""
    grow(team)
    witness.stamp_all()
    assert authority.asked == 0
    assert [found for found in doctor.examine(deep=False) if found.part == "witness"] == []


def test_the_api_gives_the_timestamp_with_the_checkpoint(team, api, token_of, lena):
    grow(team)
    witness.stamp_all()
    found = api(token_of(lena)).get("/api/v1/log/checkpoints").json()["checkpoints"][-1]
    assert found["signature"]["timestamp"] == checkpoints.newest(team).timestamp
