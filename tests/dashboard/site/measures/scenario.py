"""Months of a team as a plain list of what happened, made by a seed; and the same as rows of the database."""

import hashlib
import json
import random
from datetime import UTC, datetime, timedelta

from django.contrib.auth import get_user_model

from approvals.models import Action, Decision, Grant, ModelUsage, Revision
from dashboard.models import Agent
from workspaces.models import EgressDay, Environment, Run, Runner, Snapshot, Workspace

NOW = datetime(2026, 3, 20, 15, 30, tzinfo=UTC)
RULES = ["", "ask Bash(git push *)", "=1+1"]
OUTCOMES = [("low", "succeeded"), ("medium", "failed"), ("high", "succeeded"), ("high", "denied"), ("high", "expired")]
OUTCOMES += [("critical", "succeeded"), ("critical", "denied"), ("forbidden", "denied")]


def happened(seed: int) -> list[dict]:
    """What happened before NOW, over some eighty days."""
    rng, events = random.Random(seed), []
    for place in range(6):
        at = NOW - timedelta(days=rng.uniform(20, 80))
        for number in range(rng.randrange(1, 9)):
            at += timedelta(hours=rng.uniform(1, 100))
            if at > NOW:
                break
            events.append(_run(rng, place, number, at))
            at = events[-1]["end"] or NOW + timedelta(days=1)
    for number in range(150):
        events.append(_call(rng, number))
    for day in range(80):
        if rng.random() < 0.6:
            sent, received = rng.randrange(10**9), rng.randrange(10**9)
            events.append({"is": "egress", "place": rng.randrange(6), "day": day, "sent": sent, "received": received})
    return events


def _run(rng, place, number, at) -> dict:
    ready = at + timedelta(seconds=rng.uniform(1, 90)) if rng.random() < 0.85 else None
    has_setup = ready and (number == 0 or rng.random() < 0.2)
    end = at + timedelta(hours=rng.uniform(0.1, 60))
    return {
        "is": "run",
        "place": place,
        "at": at,
        "ready": ready,
        "end": None if ready and rng.random() < 0.1 else end,
        "setup": round(rng.uniform(5, 400), 3) if has_setup else None,
        "useful": ready + timedelta(seconds=rng.uniform(1, 500)) if ready and rng.random() < 0.7 else None,
    }


def _call(rng, number) -> dict:
    tier, status = rng.choice(OUTCOMES)
    at = NOW - timedelta(days=rng.uniform(0, 80))
    decided = status in ("succeeded", "denied") and tier in ("high", "critical")
    by_grant = decided and status == "succeeded" and rng.random() < 0.3
    usage = {"model": rng.choice(["m-1", "m-2", ""]), "input": rng.randrange(10**6), "output": rng.randrange(10**5)}
    return {
        "is": "call",
        "number": number + 1,
        "at": at,
        "tier": tier,
        "status": status,
        "rule": rng.choice(RULES),
        "by_grant": by_grant,
        "answer_at": at + timedelta(seconds=rng.expovariate(1 / 600)) if decided and not by_grant else None,
        "person": rng.choice(["bob", "lena"]),
        "usage": usage if status in ("succeeded", "failed") and rng.random() < 0.5 else None,
    }


def write(team, events: list[dict]):
    """Make the rows of these events in the team; Bob and Lena are in it."""
    agent = Agent.objects.create(team=team, name="worker")
    runner = Runner.objects.create(host="here")
    places = [_place(team, agent, n) for n in range(6)]
    grant = Grant.objects.create(
        team=team, agent=agent, by=get_user_model().objects.get(username="bob"), expires_at=NOW, uses_left=1
    )
    for event in events:
        {"run": _write_run, "call": _write_call, "egress": _write_egress}[event["is"]](
            event, team=team, agent=agent, runner=runner, places=places, grant=grant
        )


def _place(team, agent, n) -> Workspace:
    limits = {"cpus": n, "memory_bytes": n * 10**9} if n else {}
    environment = Environment.objects.create(team=team, name=f"e{n}", limits=limits)
    place = Workspace.objects.create(team=team, key=f"p{n}", environment=environment, created_by_agent=agent)
    place.head = Snapshot.objects.create(
        workspace=place,
        number=1,
        tree=hashlib.sha256(place.key.encode()).digest(),
        kind="setup",
        entries=1,
        bytes=1000 * (n + 1),
        added_bytes=10 * (n + 1),
        created_at=NOW - timedelta(days=10 * n),
    )
    place.save()
    return place


def _write_run(event, *, runner, places, **_):
    Run.objects.create(
        workspace=places[event["place"]],
        runner=runner,
        started_at=event["at"],
        ready_at=event["ready"],
        ended_at=event["end"],
        setup_seconds=event["setup"],
        first_useful_at=event["useful"],
    )


def _write_call(event, *, team, agent, grant, **_):
    canonical = json.dumps({"n": event["number"]}).encode()
    digest = hashlib.sha256(canonical).hexdigest()
    action = Action.objects.create(
        team=team,
        number=event["number"],
        agent=agent,
        mode="gate",
        tool="Bash",
        title="x",
        session=str(event["number"]),
        call_hash=digest,
        status=event["status"],
        tier=event["tier"],
        undo="no",
        digest=digest,
        grant=grant if event["by_grant"] else None,
        created_at=event["at"],
        expires_at=event["at"],
        revision=2,
        rule=event["rule"],
    )
    for number, rule in ((1, "an older revision's"), (2, event["rule"])):
        revision = Revision.objects.create(
            action=action, number=number, canonical=canonical, digest=digest, tier=event["tier"], rule=rule,
            created_at=event["at"],
        )  # fmt: skip
    if event["answer_at"]:
        people = {user.username: user for user in get_user_model().objects.filter(username__in=["bob", "lena"])}
        user = people.pop(event["person"])
        both = {"action": action, "revision": revision}
        both["verdict"] = "deny" if event["status"] == "denied" else "approve"
        # A vote before the answer, which counts for nothing.
        Decision.objects.create(**both, user=people.popitem()[1], at=event["at"])
        Decision.objects.create(**both, user=user, at=event["answer_at"], final=True)
    if event["usage"]:
        used = event["usage"]
        ModelUsage.objects.create(
            action=action,
            model=used["model"],
            input_tokens=used["input"],
            output_tokens=used["output"],
            at=event["at"],
        )


def _write_egress(event, *, places, **_):
    day = (NOW - timedelta(days=event["day"])).date()
    EgressDay.objects.create(workspace=places[event["place"]], day=day, sent=event["sent"], received=event["received"])
