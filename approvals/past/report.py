"""The whole answer: the calls of some days, those that a policy asks about, and what could be trusted."""

import time
from collections import Counter
from pathlib import Path

from approvals.past import attacks, replay, transcripts, trust
from approvals.past.program_files import ProgramFiles
from approvals.policy import read_policy

MAX_HEADINGS, MAX_SHOWN = 60, 40  # headings, and calls of one
MAX_TEXT = 1_000  # characters of one call
MAX_REASONS = 4


def make(
    text: str,
    *,
    homes: list[str],
    search_path: str,
    folders: list[str] = (),
    floor: str = "",
    days: int = 30,
    progress=None,
) -> dict:
    """Read the transcripts of some homes and judge them by the policy `text`; return plain data for pages and JSON.

    `folders`: only their sessions, with them as workspaces. `floor`: the team's policy, which forbids everywhere.
    `progress(step, done, of)` is called now and then.
    """
    began, told = time.monotonic(), progress or (lambda *_: None)
    told("Reading transcripts", 0, 0)
    past = transcripts.Past()
    for home in homes:
        transcripts.Reader(Path(home), days=days, folders=folders, past=past).read()
    policy = read_policy(text)
    policy = policy.above(read_policy(floor)) if floor else policy
    judge = replay.Judge(policy, homes[0], ProgramFiles(search_path), tuple(folders))
    calls = [(past.calls[key], number) for key, number in past.counts.items()]
    found = replay.replay(calls, judge, lambda done, of: told("Judging calls", done, of))
    told("Trying what could be trusted", 0, 0)
    running = attacks.running(judge)
    suggestions = trust.suggest(found, judge, text, floor, running)
    every = trust.with_trust(judge, text, floor, *(each.trusted for each in suggestions)) or judge
    left = [each for each in found if replay.asks(every.verdict(each.call))]
    return _counts(past, found, left, days, list(folders)) | {
        "attacks": len(attacks.shipped()),
        "attacks_stopped": len(attacks.shipped()) - len(running),
        "attacks_stopped_with_trust": len(attacks.shipped()) - len(attacks.running(every)),
        "attacks_running": [_attack(each) for each in sorted(running, key=lambda each: each.text)],
        "suggestions": [_suggestion(each) for each in suggestions],
        "groups": _groups(found),
        "seconds": round(time.monotonic() - began, 1),
    }


def _counts(past, found: list, left: list, days: int, folders: list[str]) -> dict:
    asked, hours = _times(found), len(past.hours)
    return {
        "days": days,
        "folders": folders,
        "calls": past.total,
        "different": len(past.calls),
        "agents": {transcripts.LABELS[name]: number for name, number in sorted(past.agents.items())},
        "active_hours": hours,
        "files": past.files,
        "broken_lines": past.broken,
        "skipped_files": past.skipped,
        "cut": past.cut,
        "asked": asked,
        "asked_per_100_calls": round(100 * asked / past.total, 1) if past.total else 0.0,
        "asked_per_active_hour": round(asked / hours, 1) if hours else 0.0,
        "asked_with_trust": _times(left),
    }


def stamp(homes: list[str], folders: list[str], days: int) -> list:
    """Return what changes when a transcript does."""
    return [transcripts.Reader(Path(home), days=days, folders=folders).stamps() for home in homes]


def _times(found: list) -> int:
    return sum(each.times for each in found)


def _groups(found: list) -> list[dict]:
    """Return the calls that ask under their headings, the most frequent heading first."""
    counted, listed = Counter(), {}
    for each in found:
        counted[each.heading] += each.times
        listed.setdefault(each.heading, []).append(each)
    return [
        {
            "heading": heading,
            "times": times,
            "different": len(listed[heading]),
            "calls": [_row(each) for each in listed[heading][:MAX_SHOWN]],
        }
        for heading, times in counted.most_common(MAX_HEADINGS)
    ]


def _row(each) -> dict:
    call = each.call
    return {
        "agent": transcripts.LABELS[call.agent],
        "tool": call.tool[:200],
        "text": call.text[:MAX_TEXT],
        "cwd": call.cwd[:MAX_TEXT],
        "times": each.times,
        "tier": each.tier,
        "reasons": [reason[:500] for reason in each.reasons[:MAX_REASONS]],
    }


def _suggestion(each) -> dict:
    trusted = each.trusted
    return {
        "kind": trusted.kind,
        "label": trusted.label,
        "entry": trusted.entry,
        "says": trusted.says,
        "saves": each.saves,
        "allows": [_attack(attack) for attack in each.allows],
        "aimed": each.aimed,
    }


def _attack(attack) -> dict:
    return {"does": attack.does, "text": attack.text}
