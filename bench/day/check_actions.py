"""Invariants of actions and their answers (I1 to I6 and I10)."""

import hashlib
import json
from collections import Counter, defaultdict

from bench.day.findings import rule
from bench.day.seen import AWAY

ENDS = ("denied", "expired", "cancelled", "succeeded", "failed", "uncertain")
RAN = ("running", "succeeded", "failed", "uncertain")
TIMES = {"succeeded": (1,), "failed": (0, 1), "uncertain": (0, 1), "running": (0, 1)}


def told(evidence, verb: str) -> list:
    """Return the records of a verb that was acknowledged."""
    return [each for each in evidence.seen if each.verb == verb and 200 <= each.status < 300]


def contents(evidence) -> dict[str, dict[int, dict]]:
    """Return {action: {revision: the call that its bytes say}}."""
    found = defaultdict(dict)
    for row in evidence.rows["revisions"]:
        found[row["action_id"]][row["number"]] = json.loads(row["canonical"])
    return found


def tag_in(call: dict) -> str | None:
    """Return the tag that a call leaves where it runs."""
    words = str(call["arguments"].get("command", "")).split()
    return words[1] if words[:1] == ["echo"] and any(".ran" in word for word in words[:4]) else None


@rule("I1")
def nothing_accepted_is_lost(evidence):
    known = {row["id"]: row for row in evidence.rows["actions"]}
    for each in told(evidence, "was told of an action"):
        if each.about["action"] not in known:
            yield f"{each.actor} was told of action {each.about['action']} ({each.about['tag']}), which is gone"
    commands = {row["id"] for row in evidence.rows["commands"]}
    for each in told(evidence, "was told of a command"):
        if each.about["command"] not in commands:
            yield f"{each.actor} was told of command {each.about['command']}, which is gone"
    messages = {row["text"] for row in evidence.rows["messages"]}
    for verb in ("ask the agent", "answer a question"):
        for each in told(evidence, verb):
            if each.about["text"] not in messages:
                yield f"{each.actor} was told that a message was kept, and it is gone: {each.about['text']}"


@rule("I1")
def each_action_has_one_end_in_the_log(evidence):
    ends = defaultdict(list)
    for event in evidence.rows["events"]:
        verb = event["verb"].removeprefix("action.")
        if event["subject_type"] == "action" and verb in ENDS:
            ends[event["subject_id"]].append(verb)
    for row in evidence.rows["actions"]:
        found = ends[row["id"]]
        wanted = [row["status"]] if row["status"] in ENDS else []
        if found != wanted:
            yield f"A-{row['number']} is {row['status']}, and its log says {found}"


@rule("I1")
def an_end_that_an_agent_heard_stays(evidence):
    status = {row["id"]: row["status"] for row in evidence.rows["actions"]}
    for each in told(evidence, "was told of an action"):
        heard, now = each.about["status"], status.get(each.about["action"])
        if heard in ENDS and now != heard:
            yield f"{each.actor} heard {heard} of {each.about['action']}, which is {now} now"


@rule("I1")
def one_request_makes_one_action(evidence):
    keys = Counter((row["agent_id"], row["idempotency_key"]) for row in evidence.rows["actions"])
    for (agent, key), count in keys.items():
        if key and count > 1:
            yield f"{count} actions of agent {agent} for the one key {key}"


@rule("I2")
def acknowledged_answers_are_kept(evidence):
    names = {row["id"]: row["username"] for row in evidence.rows["users"]}
    digests = {row["id"]: row["digest"] for row in evidence.rows["revisions"]}
    kept = defaultdict(list)  # a person may answer to each revision
    for row in evidence.rows["decisions"]:
        answer = {"verdict": row["verdict"], "digest": digests[row["revision_id"]], "comment": row["comment"]}
        kept[row["action_id"], names[row["user_id"]]].append(answer)
    for verb in ("approve", "deny", "edit"):
        for each in told(evidence, verb):
            answers = [one for one in kept[each.about["action"], each.actor] if one["digest"] == each.about["digest"]]
            if verb == "edit" and kept[each.about["action"], each.actor]:
                continue  # which revision an edit is kept with is the product's own affair
            if not answers:
                yield f"{each.actor} was told that {verb} was kept for {each.about['action']}, and it is gone"
            elif answers[0]["verdict"] != verb:
                yield f"{each.actor} answered {verb} to {each.about['digest']}, and {answers[0]['verdict']} is kept"
            elif verb == "deny" and answers[0]["comment"] != each.about["comment"]:
                yield f"the reason of {each.actor}'s denial of {each.about['action']} is another one now"


@rule("I3")
def nothing_runs_twice(evidence):
    for workspace, tags in evidence.traces.items():
        scheduled = {row["name"] for row in evidence.rows["schedules"]}
        for tag, count in Counter(tags).items():
            if count > 1 and tag not in scheduled:
                yield f"{tag} ran {count} times in workspace {workspace}"


@rule("I3")
def a_schedule_runs_once_for_each_due_time(evidence):
    due = Counter(row["schedule_id"] for row in evidence.rows["scheduled_runs"] if row["command_id"])
    ran = Counter(tag for tags in evidence.traces.values() for tag in tags)
    for row in evidence.rows["schedules"]:
        if ran[row["name"]] > due[row["id"]]:
            yield f"schedule {row['name']} ran {ran[row['name']]} times for {due[row['id']]} due times"


@rule("I4")
def the_digest_is_that_of_the_bytes(evidence):
    current = {(row["id"], row["revision"]): row for row in evidence.rows["actions"]}
    for row in evidence.rows["revisions"]:
        if hashlib.sha256(row["canonical"]).hexdigest() != row["digest"]:
            yield f"revision {row['number']} of {row['action_id']} has other bytes than its digest says"
        action = current.get((row["action_id"], row["number"]))
        if action and action["digest"] != row["digest"]:
            yield f"A-{action['number']} names another digest than its revision"


@rule("I4")
def what_was_shown_is_what_was_decided(evidence):
    digests = {(row["action_id"], row["digest"]): json.loads(row["canonical"]) for row in evidence.rows["revisions"]}
    for verb in ("approve", "deny", "edit"):
        for each in told(evidence, verb):
            call = digests.get((each.about["action"], each.about["digest"]))
            if call is None or call["arguments"] != each.about["shown"]:
                yield f"{each.actor} saw other arguments of {each.about['action']} than those of its digest"


@rule("I4")
def what_ran_is_what_was_approved(evidence):
    calls, ran = contents(evidence), {tag for tags in evidence.traces.values() for tag in tags}
    for action in evidence.rows["actions"]:
        tags = {number: tag_in(call) for number, call in calls[action["id"]].items()}
        for number, tag in tags.items():
            if tag in ran and tag != tags[action["revision"]]:
                yield f"A-{action['number']} ran as in revision {number}, not as in {action['revision']}"


@rule("I4")
def what_a_person_decided_was_approved_as_it_ran(evidence):
    numbers = {row["id"]: row["number"] for row in evidence.rows["revisions"]}
    approved = set()
    for row in evidence.rows["decisions"]:
        if row["verdict"] != "deny":  # an edit makes the next revision, and is the approval of that one
            approved.add((row["action_id"], numbers[row["revision_id"]] + (row["verdict"] == "edit")))
    final = {row["action_id"] for row in evidence.rows["decisions"] if row["final"]}
    for action in evidence.rows["actions"]:
        decided = action["status"] in RAN and action["id"] in final and action["grant_id"] is None
        if decided and (action["id"], action["revision"]) not in approved:
            yield f"A-{action['number']} ran, and nobody approved its revision {action['revision']}"


@rule("I4")
def a_gated_call_runs_as_approved(evidence):
    calls, known = contents(evidence), {row["id"]: row for row in evidence.rows["actions"]}
    for each in told(evidence, "runs a gated call"):
        action = known.get(each.about["action"])
        if action is None or action["status"] not in RAN:
            yield f"{each.actor} was let to run {each.about['tag']}, which is {action and action['status']}"
        elif calls[action["id"]][action["revision"]]["arguments"] != each.about["arguments"]:
            yield f"{each.actor} was told to run A-{action['number']} with other arguments than those approved"


@rule("I5")
def one_answer_wins(evidence):
    finals = Counter(row["action_id"] for row in evidence.rows["decisions"] if row["final"])
    for action, count in finals.items():
        if count > 1:
            yield f"{count} final answers to action {action}"
    answers = defaultdict(set)
    for verb in ("approve", "deny"):
        for each in told(evidence, verb):
            answers[each.about["action"]].add(verb)
    status = {row["id"]: row["status"] for row in evidence.rows["actions"]}
    for action, verdicts in answers.items():
        if verdicts == {"approve", "deny"} and status.get(action) != "denied":
            yield f"action {action} was acknowledged as approved and as denied"


def _went(evidence, action) -> bool:
    """Return whether the agent's home, in which a run leaves its tag, has gone with a pod since; no snapshot has it."""
    ends = [end for _begin, end in evidence.losses.get(action["workspace_id"], [])]
    return bool(ends) and action["consumed_at"].timestamp() <= max(ends)


@rule("I6")
def only_what_may_run_runs(evidence):
    calls = contents(evidence)
    for action in evidence.rows["actions"]:
        tag = tag_in(calls[action["id"]][action["revision"]])
        if tag is None or action["workspace_id"] is None or action["mode"] != "broker":
            continue
        count = evidence.traces.get(action["workspace_id"], []).count(tag)
        if not count and action["consumed_at"] and _went(evidence, action):
            continue
        if count not in TIMES.get(action["status"], (0,)):
            yield f"A-{action['number']} is {action['status']}, and {tag} ran {count} times"


@rule("I6")
def a_gated_call_is_consumed_once(evidence):
    for action, count in Counter(each.about["action"] for each in told(evidence, "runs a gated call")).items():
        if count > 1:
            yield f"action {action} was consumed {count} times"


@rule("I6")
def only_approved_pushes_arrive(evidence):
    by_id = {row["id"]: row for row in evidence.rows["actions"]}
    for each in told(evidence, "was told of a push"):
        asked = each.about["answer"].get("action")
        action = by_id.get(asked["id"]) if asked else None
        if action is None:
            continue
        arrived = each.about["branch"] in evidence.branches
        if arrived and action["status"] not in RAN:
            yield f"A-{action['number']} is {action['status']}, and {each.about['branch']} was pushed"
        if action["status"] == "succeeded" and not arrived and action["revision"] == 1:
            yield f"A-{action['number']} succeeded, and {each.about['branch']} did not arrive"


@rule("I10")
def a_hook_never_fails_open(evidence):
    known = defaultdict(list)
    for row in evidence.rows["actions"]:
        known[row["call_id"]].append(row)
    for each in evidence.seen:
        if each.verb == "hook" and each.status not in (0, 200, *AWAY):  # an outage, which other rules judge
            yield f"a hook was answered with {each.status}: {each.problem}"
        if each.verb != "heard a verdict":
            continue
        verdict = each.about["verdict"]
        if verdict == "allow" and not any(row["status"] in RAN for row in known[each.about["call_id"]]):
            yield f"a hook was told allow for {each.about['call_id']}, which nothing allows"
        if verdict not in ("allow", "deny", "ask"):
            yield f"a hook of {each.actor} heard {verdict!r}"
