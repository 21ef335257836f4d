"""`python -m approvals.audit verify FILE`: real files, a real process."""

import json
import subprocess
import sys

import pytest

from handrail_verify.log import GENESIS, chain_hash

WITHOUT_CHECKPOINT = (
    "; whether the log was rewritten, or its end cut off, only a checkpoint of its end tells (--checkpoint)"
)


def unproven(last: int) -> tuple[int, str]:
    return 0, f"unproven: events 1 to {last} of team payments, whose hashes fit{WITHOUT_CHECKPOINT}"


def chain(count, team="payments", prev=GENESIS, start=1):
    events = []
    for seq in range(start, start + count):
        event = {
            "team": team,
            "seq": seq,
            "at": f"2026-11-21T09:{seq % 60:02}:00.000+00:00",
            "actor": {"type": "person", "id": "7", "label": "Mia"},
            "verb": "action.approved",
            "subject": {"type": "action", "id": f"a{seq}"},
            "workspace": None,
            "data": {"comment": "naïve \u202e ✅", "ratio": 0.5, "n": seq},
            "prev": prev,
        }
        event["hash"] = prev = chain_hash(event)
        events.append(event)
    return events


@pytest.fixture
def audit(tmp_path):
    def run(events, *options, verb="verify"):
        export = tmp_path / "log.jsonl"
        lines = events if isinstance(events, bytes) else b"".join(json.dumps(e).encode() + b"\n" for e in events)
        export.write_bytes(lines)
        done = subprocess.run(
            [sys.executable, "-m", "approvals.audit", verb, str(export), *options],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        assert done.stdout.count("\n") == 1
        return done.returncode, done.stdout.strip()

    return run


def test_a_whole_log_verifies(audit):
    assert audit(chain(5)) == unproven(5)


def test_the_order_of_keys_and_blanks_do_not_matter(audit):
    lines = b"".join(json.dumps(dict(reversed(e.items())), indent=None).encode() + b"\n" for e in chain(3))
    assert audit(lines) == unproven(3)


def test_an_export_that_starts_later_says_so(audit):
    events, missing = chain(5), "; events 1 to 2 are not in this file"
    answer = f"unproven: events 3 to 5 of team payments, whose hashes fit{missing}{WITHOUT_CHECKPOINT}"
    assert audit(events[2:]) == (0, answer)
    answer = f"unchanged: events 3 to 5 of team payments{missing}"
    assert audit(events[2:], "--checkpoint", f"5:{events[4]['hash']}") == (0, answer)


@pytest.mark.parametrize("field", ["verb", "at", "actor", "subject", "workspace", "data", "prev", "team", "hash"])
def test_an_edited_field_is_named(audit, field):
    events = chain(5)
    edited = {"verb": "x", "at": "2026", "actor": {}, "subject": {}, "workspace": "w", "data": {}, "team": "other"}
    events[2][field] = edited.get(field, "0" * 64)
    assert audit(events) == (1, "Event 3 (line 3) was edited: its hash does not fit its content.")


def test_an_event_rewritten_with_its_hash_breaks_the_next_link(audit):
    events = chain(5)
    events[2]["data"] = {"comment": "something else"}
    events[2]["hash"] = chain_hash(events[2])
    assert audit(events) == (1, "Event 4 (line 4) does not follow event 3: the log was forked there.")


def test_missing_events_are_named(audit):
    events = chain(6)
    assert audit(events[:2] + events[3:]) == (1, "Event 3 is missing before event 4 (line 3).")
    assert audit(events[:2] + events[4:]) == (1, "Events 3 to 4 are missing before event 5 (line 3).")


def test_reordered_events_are_named(audit):
    events = chain(5)
    events[2], events[3] = events[3], events[2]
    assert audit(events) == (1, "Event 3 is out of order: event 4 (line 3) comes before it.")


def test_a_repeated_event_is_named(audit):
    events = chain(4)
    assert audit(events[:2] + events[1:]) == (1, "Event 2 (line 3) appears twice.")
    assert audit(events + events[1:2]) == (1, "Event 2 (line 5) comes after event 4: repeated or out of order.")


def test_a_fork_is_named(audit):
    events = chain(3)
    other = dict(events[2], data={"comment": "the other branch"})
    other["hash"] = chain_hash(other)
    assert audit([*events, other]) == (1, "Event 3 (line 4) is there in two versions: the log was forked.")


def test_another_teams_event_is_named(audit):
    stranger = chain(1, team="research", prev=chain(2)[-1]["hash"], start=3)
    assert audit(chain(2) + stranger) == (1, "Event 3 (line 3) belongs to team research, not to payments.")


def test_a_log_whose_first_event_has_a_past_is_refused(audit):
    assert audit(chain(2, prev="1" * 64)) == (
        1,
        "Event 1 (line 1) is not the beginning of a log: it follows another event.",
    )
    assert audit(chain(2, start=5)) == (1, "Event 5 (line 1) says that nothing came before it.")


def test_a_cut_tail_is_found_by_a_checkpoint(audit, tmp_path):
    events = chain(5)
    last = f"5:{events[4]['hash']}"
    assert audit(events[:3]) == unproven(3)
    whole = "complete and unchanged: events 1 to 5 of team payments"
    assert audit(events, "--checkpoint", last) == (0, whole)
    cut = (1, "The end is cut: the log stops at event 3, the checkpoint is event 5.")
    assert audit(events[:3], "--checkpoint", last) == cut
    (tmp_path / "note").write_text(last + "\n")
    assert audit(events[:3], "--checkpoint", str(tmp_path / "note")) == cut
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, events)))
    assert audit(events[:3], "--checkpoint", str(tmp_path / "old.jsonl")) == cut
    assert audit(events, "--checkpoint", last)[0] == 0
    assert audit(chain(9), "--checkpoint", last)[0] == 0


def test_a_log_is_no_checkpoint_of_itself(audit, tmp_path):
    refused = (1, "The checkpoint is the log itself: it proves nothing. Give one that was kept apart.")
    assert audit(chain(5), "--checkpoint", str(tmp_path / "log.jsonl")) == refused
    (tmp_path / "link").symlink_to(tmp_path / "log.jsonl")
    assert audit(chain(5), "--checkpoint", str(tmp_path / "link")) == refused


def test_what_came_after_a_checkpoint_is_unproven(audit):
    events = chain(5)
    noted = f"2:{events[1]['hash']}"
    said = "unchanged: events 1 to 2 of team payments; unproven: {} after the checkpoint"
    assert audit(events[:3], "--checkpoint", noted) == (0, said.format("event 3"))  # events 4 and 5 were cut off
    assert audit(events, "--checkpoint", noted) == (0, said.format("events 3 to 5"))
    first = chain(1)
    assert (
        audit(first, "--checkpoint", f"1:{first[0]['hash']}")[1] == "complete and unchanged: event 1 of team payments"
    )


def test_a_rewritten_log_without_a_checkpoint_is_unproven(audit):
    """Whoever writes all hashes anew leaves nothing in the file that tells."""
    events = chain(2) + chain(4, prev=chain(2)[-1]["hash"], start=3)
    for event, before in zip(events[2:], events[1:], strict=False):
        event["actor"], event["prev"] = {"type": "person", "id": "8", "label": "Boss"}, before["hash"]
        event["hash"] = chain_hash(event)
    assert audit(events) == unproven(6)


def test_a_rewritten_log_is_found_by_a_checkpoint(audit):
    answer = (1, "Event 5 is not the one of the checkpoint: the log was rewritten up to there.")
    assert audit(chain(6), "--checkpoint", "5:" + "a" * 64) == answer


def test_a_later_export_continues_from_its_checkpoint(audit):
    events = chain(6)
    status, said = audit(events[3:], "--checkpoint", f"3:{events[2]['hash']}")
    assert (status, said.partition(";")[0]) == (0, "unproven: events 4 to 6 of team payments, whose hashes fit")
    answer = (1, "The checkpoint is event 2, but the file starts at event 4.")
    assert audit(events[3:], "--checkpoint", f"2:{events[1]['hash']}") == answer


def test_a_checkpoint_to_keep_is_printed(audit):
    events = chain(4)
    assert audit(events, verb="checkpoint") == (0, f"4:{events[3]['hash']}")


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", "The file is empty: there is no event in it."),
        (b"hello\n", "Line 1 is not one JSON object with each key once."),
        (b"[1]\n", "Line 1 is not an event."),
        (b"\n", "Line 1 is not one JSON object with each key once."),
        (b'{"a":1,"a":2}\n', "Line 1 is not one JSON object with each key once."),
        (b"\xff\xfe\n", "Line 1 is not one JSON object with each key once."),
        (b"[" * 100_000 + b"\n", "Line 1 is not one JSON object with each key once."),
        (b'{"level":"info"}\n', "Line 1 is not an exported event: 'actor' is missing or foreign."),
    ],
)
def test_what_is_not_a_log_gets_one_clear_line(audit, content, answer):
    assert audit(content) == (1, answer)


def test_a_last_line_cut_in_the_middle_is_named(audit):
    whole = b"".join(json.dumps(e).encode() + b"\n" for e in chain(3))
    assert audit(whole[:-40]) == (1, "Line 3 is not one JSON object with each key once.")


def test_an_entry_with_a_foreign_field_is_named(audit):
    events = chain(2)
    events[1]["note"] = "x"
    assert audit(events) == (1, "Line 2 is not an exported event: 'note' is missing or foreign.")


def test_numbers_without_a_canonical_form_are_named(audit):
    events = chain(2)
    events[1]["data"] = {"n": 10**400}
    assert audit(events) == (1, "Event 2 (line 2) has no canonical form.")
    lines = json.dumps(chain(1)[0]).replace("0.5", "NaN").encode()
    assert audit(lines) == (1, "Line 1 is not one JSON object with each key once.")


def test_a_missing_file_and_a_bad_checkpoint_get_one_line(tmp_path, audit):
    done = subprocess.run(
        [sys.executable, "-m", "approvals.audit", "verify", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, f"{tmp_path / 'none'}: No such file or directory\n")
    answer = (1, "The checkpoint 5:xyz is neither SEQ:HASH nor a file that can be read.")
    assert audit(chain(1), "--checkpoint", "5:xyz") == answer


def test_the_verifier_needs_no_django():
    code = "import sys, approvals.audit, approvals.policy; print([m for m in sys.modules if m.startswith('django')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
