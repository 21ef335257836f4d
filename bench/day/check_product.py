"""Invariants of the log, the files and the processes (I7 to I11), and further checks of a day."""

import hashlib
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

import rfc8785

from bench.day.check_actions import told
from bench.day.findings import in_outage, rule

SLOWEST = 20.0  # seconds; p99 of a verb that does not wait
WAITS = ("wait ", "hook", "follow", "typed")
RUN_UP = 90.0  # seconds of a process that are left out when its memory is compared
ENOUGH = 300.0  # seconds of a process below which its growth says nothing
OF_FAULTS = ("disk is full", "No space left", "OperationalError", "InterfaceError")
TRACEBACK = "Traceback (most recent call last)"
NAMES = ("web", "runner", "queue", "up")
GROWTH = {"mib": (1.25, 40), "files": (1.5, 60), "threads": (1.5, 20)}  # times as much, and more by


def as_exported(event: dict) -> dict:
    """Return an event as docs/log.md describes it, without its hash."""
    return {
        "team": str(event["team_id"]),
        "seq": event["seq"],
        "at": event["at"].isoformat(timespec="milliseconds"),
        "actor": {"type": event["actor_type"], "id": event["actor_id"], "label": event["actor_label"]},
        "verb": event["verb"],
        "subject": {"type": event["subject_type"], "id": event["subject_id"]},
        "workspace": str(event["workspace_id"]) if event["workspace_id"] else None,
        "data": event["data"],
        "prev": event["prev"],
    }


@rule("I7")
def the_log_is_whole(evidence):
    before = {}
    for event in evidence.rows["events"]:
        seq, head = before.get(event["team_id"], (0, "0" * 64))
        if event["seq"] != seq + 1:
            yield f"event {event['seq']} of team {event['team_id']} follows {seq}"
        if event["prev"] != head:
            yield f"event {event['seq']} of team {event['team_id']} is not chained to the one before"
        if hashlib.sha256(rfc8785.dumps(as_exported(event))).hexdigest() != event["hash"]:
            yield f"event {event['seq']} of team {event['team_id']} has another content than its hash says"
        before[event["team_id"]] = event["seq"], event["hash"]
    for team in evidence.rows["teams"]:
        if (found := before.get(team["id"], (0, "0" * 64)))[0] != team["event_seq"]:
            yield f"team {team['slug']} counts {team['event_seq']} events, and its log ends with {found[0]}"


@rule("I7")
def what_ran_was_logged_before(evidence):
    verbs = defaultdict(list)
    for event in evidence.rows["events"]:
        if event["subject_type"] == "action":
            verbs[event["subject_id"]].append(event["verb"])
    for action in evidence.rows["actions"]:
        if action["consumed_at"] is None:
            continue
        found = verbs[action["id"]]
        allowed = [verb for verb in found if verb in ("action.approved", "action.allowed")]
        if "action.consumed" not in found or not allowed:
            yield f"A-{action['number']} was consumed, and its log has only {found}"


@rule("I7")
def a_reader_saw_each_event_once(evidence):
    saw = [number for each in told(evidence, "saw events") for number in each.about["ids"]]
    team = next(row for row in evidence.rows["teams"] if row["slug"] == "main")
    wanted = [event["seq"] for event in evidence.rows["events"] if event["team_id"] == team["id"]]
    if saw != wanted:
        differ = sorted(set(wanted) ^ set(saw))[:10]
        yield f"the reader of the log saw {len(saw)} events of {len(wanted)}; these differ: {differ or 'the order'}"


@rule("I8")
def another_team_sees_nothing(evidence):
    for each in evidence.seen:
        if each.verb == "look at another team's" and each.status not in (0, 404, 429, 502, 503, 507):
            yield f"a stranger was answered with {each.status}: {each.problem}"


@rule("I9")
def a_secret_stays_in_the_vault(evidence):
    for place in evidence.canary_in:
        yield f"the value of a secret lies in {place}"


@rule("I11")
def all_comes_back(evidence):
    for fault in evidence.faults:
        if not fault.back:
            yield f"after {fault.kind} /readyz never said 200 again"
    for row in evidence.in_flight:
        yield f"operation {row['kind']} {row['id']} is {row['phase']} long after the end"
    if evidence.integrity != "ok":
        yield f"the database says of itself: {evidence.integrity}"


@rule("nothing lost")
def acknowledged_files_are_there(evidence):
    for each in evidence.missing_files:
        if each.get("is_owed"):
            continue  # a host was lost with it; the desk says so, and the host has it
        at = datetime.fromtimestamp(each["at"]).strftime("%H:%M:%S")
        yield f"{each['path']} of {each['workspace']}, written at {at}, is neither live nor in a snapshot"


@rule("nothing lost")
def a_file_is_read_as_it_was_written(evidence):
    """Each is written once; whoever reads it meanwhile gets that, whichever web or host answers."""
    wrote = {(each.about["workspace"], each.about["path"]): each for each in told(evidence, "write a file")}
    for each in told(evidence, "read back"):
        written = wrote.get((each.about["workspace"], each.about["path"]))
        if written and written.about["sha256"] != each.about["sha256"]:
            yield f"{each.about['path']} of {each.about['workspace']} was read with other bytes than were written"


@rule("nothing lost")
def acknowledged_snapshots_are_there(evidence):
    keys = {row["id"]: row["key"] for row in evidence.rows["workspaces"]}
    known = {(keys[row["workspace_id"]], row["number"]) for row in evidence.rows["snapshots"]}
    for each in told(evidence, "was told of a snapshot"):
        if (each.about["workspace"], each.about["number"]) not in known:
            yield f"snapshot {each.about['number']} of {each.about['workspace']} is gone"


@rule("nothing lost")
def outputs_are_kept_as_printed(evidence):
    for each in told(evidence, "compared an output"):
        if not each.about["same"] and not each.about["truncated"]:
            about = each.about
            yield f"{about['shape']} of {about['command']}: {about['bytes']} bytes differ from {about['wanted']}"


@rule("restarts")
def no_part_restarts_by_itself(evidence):
    for each in evidence.started:
        if each.first:
            continue
        planned = any(
            each.part in fault.restarts
            and each.host == fault.host
            and fault.began - 1 <= each.at <= (fault.back or float("inf")) + 40
            for fault in evidence.faults
        )
        if not planned:
            near = [fault.kind for fault in evidence.faults if fault.began <= each.at <= (fault.back or each.at) + 60]
            yield f"{each.part} started again (pid {each.pid}) without a planned kill, {near or 'in no fault'}"


@rule("refusals")
def no_server_error_outside_of_outages(evidence):
    began = min((each.at for each in evidence.seen), default=0.0)
    for each in evidence.seen:
        if each.status < 500:
            continue
        planned = in_outage(evidence, each.at, each.at + each.seconds, outage=True)
        if not planned or each.status == 500:
            when = "in a planned outage" if planned else "outside of outages"
            at = f"{each.at - began:.0f} s"
            yield f"{each.verb} of {each.actor} at {at}: {each.status} {when}: {each.problem[:200]}"


@rule("refusals")
def no_connection_breaks_outside_of_outages(evidence):
    for each in evidence.seen:
        if each.status == 0 and each.problem and not in_outage(evidence, each.at, each.at + each.seconds):
            yield f"{each.verb} of {each.actor}: no answer after {each.seconds:.1f} s: {each.problem[:200]}"


@rule("uncertain")
def nothing_is_uncertain_without_a_kill(evidence):
    actions = {row["operation_id"]: row for row in evidence.rows["actions"] if row["operation_id"]}
    for row in evidence.rows["operations"]:
        if row["phase"] != "uncertain":
            continue
        began = (row["started_at"] or row["created_at"]).timestamp()
        until = row["settled_at"].timestamp() if row["settled_at"] else float("inf")
        if not in_outage(evidence, began - 5, until, kills=True):
            which = f" (A-{actions[row['id']]['number']})" if row["id"] in actions else ""
            yield f"{row['kind']} {row['id']}{which} is uncertain, and nothing was killed while it ran"


@rule("growth")
def memory_and_files_level_off(evidence):
    """Compare the second quarter of each process's life with the last one."""
    of = defaultdict(list)
    for sample in evidence.samples:
        of[sample.part, sample.pid].append(sample)
    for (part, _pid), samples in of.items():
        samples = [each for each in samples if each.at - samples[0].at >= RUN_UP]
        if not samples or samples[-1].at - samples[0].at < ENOUGH:
            continue
        quarter = len(samples) // 4
        for name, (times, more) in GROWTH.items():
            before = statistics.median(getattr(each, name) for each in samples[quarter : 2 * quarter])
            after = statistics.median(getattr(each, name) for each in samples[-quarter:])
            if after > before * times and after - before > more:
                yield f"{name} of {part} grew from {before:.0f} to {after:.0f}"


@rule("slow")
def no_verb_is_slow(evidence):
    for verb, seconds in by_verb(evidence).items():
        if not verb.startswith(WAITS) and len(seconds) >= 20 and (found := percentile(seconds, 99)) > SLOWEST:
            yield f"p99 of {verb} is {found:.1f} s"


@rule("log")
def no_part_reports_a_fault_of_its_own(evidence):
    """Leave out the errors that planned faults bring about: a database that is away or full."""
    for part, words in raised(evidence.log.splitlines()):
        if not any(known in words for known in OF_FAULTS):
            yield f"{part} printed a traceback: {words[:200]}"


def raised(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Return (part, last line) of each traceback in a log; of chained ones the last counts."""
    open_in: dict[str, str] = {}
    for line in [*lines, *(f"{part} | INFO" for part in NAMES)]:
        part, _, words = line.partition("|")
        part, words = part.strip(), words[1:]
        if words.startswith(TRACEBACK):
            open_in[part] = words
        elif part in open_in:
            if re.match(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b", words):
                yield part, open_in.pop(part)
            elif re.match(r"[\w.]+(:|$)", words) and not words.split(":")[0].isupper():  # not a server's DETAIL
                open_in[part] = words


def by_verb(evidence) -> dict[str, list[float]]:
    """Return {verb: seconds of each answer} of those outside of planned faults."""
    found = defaultdict(list)
    for each in evidence.seen:
        if each.seconds and each.status and not in_outage(evidence, each.at, each.at + each.seconds):
            found[each.verb].append(each.seconds)
    return found


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
