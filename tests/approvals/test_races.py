"""At one instant: threads and processes on the real database file, one winner each time."""

import os
import subprocess
import sys
import threading
from itertools import pairwise

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection, connections

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from approvals.models import Action, Decision, Status
from dashboard.database import clock
from dashboard.models import Event, Membership, Role
from dashboard.problems import Problem
from handrail_verify.log import chain_hash

from .conftest import FORCE, LIST, PUSH

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 200


@pytest.fixture
def reviewers(team, person):
    def one(number):
        user = get_user_model().objects.create_user(username=f"r{number}", email=f"r{number}@example.org")
        Membership.objects.create(team=team, user=user, role=Role.REVIEWER)
        return person(user)

    return [one(number) for number in range(5)]


def at_once(*functions):
    """Run each in a thread of its own from one starting line; what each returned or was refused with."""
    line, results = threading.Barrier(len(functions)), [None] * len(functions)

    def run(number, function):
        try:
            line.wait()
            results[number] = function()
        except Problem as problem:
            results[number] = problem
        except Exception as error:  # "database is locked" would be one
            results[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def one_winner(results) -> list[Problem]:
    """Exactly one got through; the losers, who were all told who it was."""
    lost = [r for r in results if isinstance(r, Exception)]
    assert [type(r) for r in lost] == [Problem] * (len(results) - 1), results
    return lost


def check_log(team):
    """Gapless, and one chain."""
    events = list(Event.objects.filter(team=team).order_by("seq"))
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    for before, after in pairwise(events):
        assert after.prev == before.hash == chain_hash(before.as_export())


def test_of_several_reviewers_one_wins_and_the_others_hear_who(ask, reviewers, team):
    """Approve, deny and edit, from two to five people, 200 rounds."""
    edit = {"command": "git push origin review"}
    kinds = [("approve", {}), ("deny", {}), ("edit", {"arguments": edit}), ("approve", {}), ("deny", {})]
    for number in range(ROUNDS):
        action = ask(PUSH)
        crowd = 2 + number % 4

        def answer(who, verdict, more, action=action):
            mine = gate.find(action.pk, caller=who)
            return gate.decide(mine, Answer(verdict, action.digest, **more), caller=who).status

        lost = one_winner(
            at_once(*(lambda who=reviewers[i], kind=kinds[(i + number) % 5]: answer(who, *kind) for i in range(crowd)))
        )
        final = Decision.objects.get(action=action, final=True)
        assert {p.status for p in lost} == {409}
        assert {p.extra["winner"]["by"] for p in lost} == {final.user.get_username()}
        action.refresh_from_db()
        assert action.status == (Status.DENIED if final.verdict == "deny" else Status.APPROVED)
    check_log(team)


def test_votes_at_one_instant_are_all_counted(ask, reviewers):
    for _ in range(20):
        action = ask(FORCE)
        results = at_once(
            *(
                lambda who=who, action=action: (
                    gate.decide(gate.find(action.pk, caller=who), Answer("approve", action.digest), caller=who).status
                )
                for who in reviewers[:2]
            )
        )
        assert sorted(map(str, results)) == ["approved", "pending"]
        assert Decision.objects.filter(action=action, final=True).count() == 1


def test_an_answer_and_a_withdrawal(ask, reviewers, caller):
    for _ in range(20):
        action = ask(PUSH)
        results = at_once(
            lambda action=action: gate.decide(action, Answer("deny", action.digest), caller=reviewers[0]).status,
            lambda action=action: gate.cancel(gate.find(action.pk, caller=caller), caller=caller).status,
        )
        one_winner(results)


def test_an_approval_is_consumed_once(ask, caller):
    for _ in range(30):
        action = ask(LIST)
        collect = [
            lambda action=action: async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=caller).status
        ]
        lost = one_winner(at_once(*collect * 4))
        assert {p.extra["code"] for p in lost} == {"already_consumed"}
        assert Event.objects.filter(subject_id=str(action.pk), verb="action.consumed").count() == 1


def test_the_same_call_from_several_hooks_is_one_card(caller):
    for number in range(20):
        call = Call(tool="Bash", arguments=PUSH, session=f"s{number}")
        results = at_once(*[lambda call=call: gate.submit(call, caller=caller)[0].pk] * 4)
        assert len(set(results)) == 1, results
    assert Action.objects.count() == 20


def test_the_same_key_at_one_instant_is_one_action(caller):
    for number in range(20):
        call = Call(tool="Bash", arguments=PUSH, idempotency_key=f"k{number}", body_hash="b")
        results = at_once(*[lambda call=call: gate.submit(call, caller=caller)[0].pk] * 4)
        assert len(set(results)) == 1, results
    assert Action.objects.count() == 20


def test_nothing_is_used_after_a_stop(ask, caller, reviewers, team):
    for _ in range(15):
        action = ask(LIST)
        used, stopped = at_once(
            lambda action=action: async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=caller).status,
            lambda: gate.stop_everything(team, caller=reviewers[0]),
        )
        action.refresh_from_db()
        if used == "running":
            assert (action.status, stopped["withdrawn"]) == (Status.RUNNING, 0)
        else:
            assert (action.status, stopped["withdrawn"]) == (Status.CANCELLED, 1)
        type(team).objects.update(stopped_at=None)


def test_around_the_moment_of_expiry_it_is_one_or_the_other(ask, reviewers):
    for _ in range(20):
        action = ask(PUSH)
        Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
        answer, _ = at_once(
            lambda action=action: gate.decide(action, Answer("approve", action.digest), caller=reviewers[0]).status,
            gate.sweep,
        )
        action.refresh_from_db()
        assert (answer.extra["code"], action.status) == ("expired", Status.EXPIRED)


PROCESS = """
import os, sys, django
django.setup()
from django.db import connections
from django.contrib.auth import get_user_model
connections["default"].settings_dict["NAME"] = os.environ["RACE_DATABASE"]
from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from approvals.models import Action
from dashboard.people.access import Caller, caller_by_token, caller_of
from dashboard.problems import Problem
from dashboard.people.tokens import find_token

role, secret = sys.argv[1], sys.argv[2]
won = 0
if role == "agent":
    caller = caller_by_token(find_token(secret))
    for number in range(15):
        call = Call(tool="Bash", arguments={"command": "git push"}, idempotency_key=f"{os.getpid()}-{number}")
        gate.submit(call, caller=caller)
        won += 1
else:
    caller = caller_of(get_user_model().objects.get(username=secret))
    for _ in range(15):
        for action in Action.objects.pending()[:5]:
            try:
                gate.decide(action, Answer("approve" if int(secret[1:]) % 2 else "deny", action.digest), caller=caller)
                won += 1
            except Problem as problem:
                assert problem.status == 409, problem.detail
print(won)
"""


def test_sixteen_processes_never_see_a_locked_database(agent_token, reviewers, team):
    """Eight agents and eight reviewers, each a process, on one file."""
    database = str(connection.settings_dict["NAME"])
    environment = os.environ | {"RACE_DATABASE": database, "PYTHONPATH": os.getcwd(), "HANDRAIL_LOG_LEVEL": "WARNING"}
    environment["HANDRAIL_AGENT_PENDING_LIMIT"] = "200"  # all eight are one agent
    roles = [("agent", agent_token)] * 8 + [("reviewer", f"r{number % 5}") for number in range(8)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *role],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    told = [process.communicate(timeout=120) for process in running]
    assert [(p.returncode, err) for p, (_, err) in zip(running, told, strict=True)] == [(0, "")] * 16
    assert Action.objects.count() == 120
    decided = Action.objects.exclude(status=Status.PENDING).count()
    assert decided == Decision.objects.filter(final=True).count() == sum(int(out) for out, _ in told[8:])
    check_log(team)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA integrity_check")
            assert cursor.fetchone() == ("ok",)
