"""Each team's log is signed every minute; a stranger with export, checkpoint and public key finds what was changed."""

import hashlib
import json
from datetime import timedelta

import pytest
from django.db import connection

from dashboard.database import clock
from dashboard.event_log import checkpoints, triggers
from dashboard.keys import log_key
from dashboard.models import Actor, Event, LogCheckpoint
from dashboard.ops import tasks
from handrail_verify import canonical, signed
from handrail_verify.__main__ import main
from handrail_verify.log import chain_hash

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def second_place(settings, tmp_path):
    settings.HANDRAIL_CHECKPOINTS = tmp_path / "elsewhere" / "checkpoints"


def grow(team, count=3):
    for number in range(count):
        Event.objects.record(team, actor=Actor.system("test"), verb="team.changed", subject=team, data={"n": number})
    team.refresh_from_db()


def export(team, tmp_path):
    events = Event.objects.filter(team=team).order_by("seq")
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(event.as_export()) + "\n" for event in events))
    return path


def verified(capsys, *arguments):
    """Return (exit status, what is printed) of `handrail_verify log`."""
    status = main(["log", *map(str, arguments)])
    return status, capsys.readouterr().out.strip()


def rewrite(team, seq, **changes):
    """Change an event and all hashes after it, as somebody can who writes to the database."""
    triggers.remove(connection)
    head = None
    for event in Event.objects.filter(team=team, seq__gte=seq).order_by("seq"):
        event.prev = head or event.prev
        if event.seq == seq:
            for name, value in changes.items():
                setattr(event, name, value)
        event.hash = ""
        head = event.hash = chain_hash(event.as_export())
        event.save()
    type(team).objects.filter(pk=team.pk).update(event_head=head)
    triggers.install(connection)


def test_it_is_signed_each_minute_in_which_the_log_grew(team):
    grow(team)
    checkpoints.sign_all()
    checkpoints.sign_all()
    [signed] = LogCheckpoint.objects.filter(team=team)
    assert (signed.seq, signed.hash) == (team.event_seq, team.event_head)
    grow(team, 1)
    checkpoints.sign_all()
    assert [one.seq for one in LogCheckpoint.objects.filter(team=team).order_by("seq")] == [signed.seq, signed.seq + 1]
    assert tasks.SCHEDULED["dashboard.event_log.checkpoints.sign_all"] == 1


def test_export_checkpoint_and_key_prove_the_log(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    log, last = export(team, tmp_path), team.event_seq
    status, said = verified(capsys, log, "--checkpoint", checkpoints.place_of(team), "--key", log_key.public_key())
    assert (status, said) == (
        0,
        f"complete and unchanged, by a checkpoint that the key signed: events 1 to {last} of team {team.pk}",
    )


def test_without_a_checkpoint_it_is_unproven(team, tmp_path, capsys):
    grow(team)
    status, said = verified(capsys, export(team, tmp_path), "--key", log_key.public_key())
    assert (status, said.startswith("unproven: ")) == (0, True)


def test_a_rewritten_log_is_found_though_its_hashes_fit(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    rewrite(team, 2, actor_label="mallory")
    log = export(team, tmp_path)
    assert verified(capsys, log)[0] == 0
    status, said = verified(capsys, log, "--checkpoint", checkpoints.place_of(team), "--key", log_key.public_key())
    assert (status, said) == (
        1,
        f"Event {team.event_seq} is not the one of the checkpoint: the log was rewritten up to there.",
    )


def test_a_rewritten_log_is_not_signed_again(team, caplog):
    grow(team)
    checkpoints.sign_all()
    rewrite(team, 2, actor_label="mallory")
    grow(team, 1)
    checkpoints.sign_all()
    assert LogCheckpoint.objects.filter(team=team).count() == 1
    assert "is no longer the one that was signed" in caplog.text


def test_a_cut_end_is_found(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    log = export(team, tmp_path)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    status, said = verified(capsys, log, "--checkpoint", checkpoints.place_of(team), "--key", log_key.public_key())
    assert (status, said.startswith("The end is cut: the log stops at event")) == (1, True)


@pytest.mark.parametrize("with_key", [True, False])
@pytest.mark.parametrize("change", [{"seq": 1}, {"hash": "0" * 64}, {"at": "2026-01-01T00:00:00.000+00:00"}])
def test_a_forged_checkpoint_is_refused(team, tmp_path, capsys, change, with_key):
    grow(team)
    checkpoints.sign_all()
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(checkpoints.as_download(checkpoints.newest(team)) | change))
    key = ["--key", log_key.public_key()] if with_key else []
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", forged, *key)
    assert (status, "does not verify. It was changed" in said) == (1, True), said


def test_a_checkpoint_made_for_a_rewritten_log_does_not_fit_its_old_signature(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    rewrite(team, 2, actor_label="mallory")
    team.refresh_from_db()
    body = checkpoints.as_download(checkpoints.newest(team)) | {"hash": team.event_head}
    body["sha256"] = hashlib.sha256(
        canonical.dumps({name: value for name, value in body.items() if name not in signed.ADDED})
    ).hexdigest()
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(body))
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", forged)
    assert (status, "the signature does not belong to its content" in said) == (1, True), said


def test_without_a_key_it_is_told_that_nobody_knows_who_signed(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", checkpoints.place_of(team))
    assert (status, said.endswith("whether your installation signed the checkpoint, only its key tells (--key)")) == (
        0,
        True,
    )


def test_checkpoints_that_contradict_each_other_prove_nothing(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    before = checkpoints.place_of(team).read_text()
    rewrite(team, 2, actor_label="mallory")
    LogCheckpoint.objects.all().delete()
    checkpoints.place_of(team).unlink()
    checkpoints.sign_all()
    both = tmp_path / "both.jsonl"
    both.write_text(before + checkpoints.place_of(team).read_text())
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", both, "--key", log_key.public_key())
    assert (status, said) == (
        1,
        f"The checkpoints contradict each other: there are two of event {team.event_seq}.",
    )


def test_another_key_and_a_note_without_signature_are_refused(team, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    log, signed = export(team, tmp_path), checkpoints.newest(team)
    status, said = verified(capsys, log, "--checkpoint", checkpoints.place_of(team), "--key", "A" * 43 + "=")
    assert (status, "signed with another key" in said) == (1, True)
    note = f"{signed.seq}:{signed.hash}"
    assert verified(capsys, log, "--checkpoint", note)[0] == 0
    assert verified(capsys, log, "--checkpoint", note, "--key", log_key.public_key())[0] == 1


def test_a_checkpoint_of_another_team_is_refused(team, other_team, tmp_path, capsys):
    grow(team)
    grow(other_team)
    checkpoints.sign_all()
    status, said = verified(capsys, export(team, tmp_path), "--checkpoint", checkpoints.place_of(other_team))
    assert (status, said.startswith("The checkpoint is of the log of team")) == (1, True)


def test_the_second_place_gets_what_it_missed_while_it_was_away(team, settings, tmp_path, caplog):
    (tmp_path / "elsewhere").write_text("not a folder")
    grow(team)
    checkpoints.sign_all()
    assert "are not in their second place" in caplog.text
    (tmp_path / "elsewhere").unlink()
    grow(team, 1)
    checkpoints.sign_all()
    lines = checkpoints.place_of(team).read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [team.event_seq - 1, team.event_seq]


def test_a_line_that_a_kill_left_unfinished_is_not_the_last_word(team):
    grow(team)
    checkpoints.sign_all()
    with checkpoints.place_of(team).open("a") as file:
        file.write('{"checkpoint": 1, "seq"')
    grow(team, 1)
    checkpoints.sign_all()
    assert checkpoints.last_copied(team) == team.event_seq


def test_old_checkpoints_are_thinned_out_in_the_database_alone(team):
    now = clock.now()
    for days in (20, 20, 19):
        grow(team, 1)
        checkpoints.sign(team, now - timedelta(days=days))
    grow(team, 1)
    checkpoints.sign_all()
    assert LogCheckpoint.objects.filter(team=team).count() == 3
    assert len(checkpoints.place_of(team).read_text().splitlines()) == 4


# Over the API and on the page ----------------------------------------------------------------------------------------


def test_a_lead_exports_the_log_and_its_checkpoints(team, api, token_of, lena, tmp_path, capsys):
    grow(team)
    checkpoints.sign_all()
    lead = api(token_of(lena))
    log, saved = tmp_path / "log.jsonl", tmp_path / "checkpoint.json"
    log.write_bytes(b"".join(lead.get("/api/v1/log/export").streaming_content))
    found = lead.get("/api/v1/log/checkpoints").json()
    saved.write_text(json.dumps(found["checkpoints"][-1], indent=2))
    status, said = verified(capsys, log, "--checkpoint", saved, "--key", found["key"])
    assert (status, "unchanged, by a checkpoint that the key signed: events 1 to" in said) == (0, True), said
    assert [one["seq"] for one in found["checkpoints"]] == [team.event_seq]


def test_checkpoints_come_newest_last(team, api, token_of, alice):
    for _ in range(3):
        grow(team, 1)
        checkpoints.sign_all()
    admin = api(token_of(alice))
    last = LogCheckpoint.objects.filter(team=team).order_by("seq").values_list("seq", flat=True)
    numbers = [one["seq"] for one in admin.get("/api/v1/log/checkpoints").json()["checkpoints"]]
    assert numbers == list(last)
    newest_two = admin.get("/api/v1/log/checkpoints?limit=2").json()["checkpoints"]
    assert [one["seq"] for one in newest_two] == numbers[1:]


@pytest.mark.parametrize("path", ["/api/v1/log/export", "/api/v1/log/checkpoints"])
def test_reviewers_and_agents_get_neither(path, api, token_of, bob, agent_token):
    assert [api(token).get(path).status_code for token in (token_of(bob), agent_token)] == [403, 403]


def test_the_page_says_what_is_signed_and_gives_it(team, alice, browser_of, tmp_path, capsys):
    grow(team)
    browser = browser_of(alice)
    assert "The first signed checkpoint is made within a minute." in browser.get("/log/").content.decode()
    assert browser.get("/log/checkpoint/?team=payments").status_code == 404
    checkpoints.sign_all()
    assert f"Signed checkpoint: event {team.event_seq}," in browser.get("/log/").content.decode()
    saved = tmp_path / "checkpoint.json"
    saved.write_bytes(browser.get("/log/checkpoint/?team=payments").content)
    assert verified(capsys, export(team, tmp_path), "--checkpoint", saved, "--key", log_key.public_key())[0] == 0


def test_who_is_not_in_the_team_gets_no_checkpoint(team, mallory, browser_of):
    grow(team)
    checkpoints.sign_all()
    assert browser_of(mallory).get("/log/checkpoint/?team=payments").status_code == 404
