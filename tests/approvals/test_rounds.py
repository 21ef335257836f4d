"""Rounds of two to five reviewers at one instant, each doing something else: one outcome for each round.

HANDRAIL_TEST_ROUNDS says how many (30); `HANDRAIL_TEST_ROUNDS=1000` is the long run.
"""

import os
import random
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db.models import Count, Q

from approvals.actions import attention, expiry, gate, grants
from approvals.actions.answer import Answer
from approvals.evaluation import policies
from approvals.evaluation.calls import Call
from approvals.models import Action, Decision, Grant, Status
from approvals.policy import default_policy
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role
from dashboard.problems import Problem

from .conftest import FORCE, PUSH
from .test_races import at_once, check_log, reviewers  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "30"))
TABLE = '\n[approvals]\ncritical = {people = 2, role = "lead"}\n\n[[tests]]'
EDITED = {"command": "git push origin review"}
THREADS, USES = 50, 20


class Round:
    """What people do to one action at one instant; each way answers with nothing, or raises a Problem."""

    def __init__(self, action: Action):
        self.pk, self.digest = action.pk, action.digest

    def found(self, who) -> Action:
        return gate.find(self.pk, caller=who)

    def approve(self, who):
        gate.decide(self.found(who), Answer("approve", self.digest), caller=who)

    def deny(self, who):
        gate.decide(self.found(who), Answer("deny", self.digest, "no"), caller=who)

    def edit(self, who):
        gate.decide(self.found(who), Answer("edit", self.digest, arguments=EDITED), caller=who)

    def undo(self, who):
        self.approve(who)
        gate.take_back(self.found(who), caller=who)

    def snooze(self, who):
        attention.snooze(self.found(who), caller=who, minutes=5)

    def pass_on(self, who):
        attention.pass_to(self.found(who), caller=who, name=who.user.get_username())

    def expire(self, who):
        Action.objects.filter(pk=self.pk, status=Status.PENDING).update(expires_at=clock.now() - timedelta(seconds=1))
        expiry.sweep(who.team_ids)


WAYS = ("approve", "approve", "deny", "edit", "undo", "snooze", "pass_on", "expire")


def check_outcome(action: Action):
    """The action has one status that its decisions and its events both say."""
    finals = list(action.decisions.filter(final=True))
    verbs = list(Event.objects.filter(subject_id=str(action.pk)).order_by("seq").values_list("verb", flat=True))
    reopened = verbs.count("action.reopened")
    ends = [verb for verb in verbs if verb in ("action.approved", "action.denied", "action.expired")]
    open_now = action.status == Status.PENDING
    assert len(ends) == reopened + (0 if open_now else 1), verbs
    if action.status in (Status.PENDING, Status.EXPIRED):
        assert finals == []
        return
    assert len(finals) == 1
    assert ends[-1] == f"action.{action.status}"
    if action.status == Status.APPROVED and finals[0].verdict == "approve":
        given = action.decisions.filter(verdict="approve", revision__number=action.revision)
        people = set(given.values_list("user", flat=True))
        assert len(people) >= action.quorum
        leads = Membership.objects.filter(user__in=people, role__in=[Role.LEAD, Role.ADMIN])
        assert not action.quorum_role or leads.exists()


def test_each_round_has_one_outcome(ask, reviewers, caller, team):  # noqa: F811
    text = default_policy("irreversible").replace("\n[[tests]]", TABLE, 1)
    Membership.objects.filter(user=reviewers[0].user).update(role=Role.LEAD)
    reviewers[0].roles[team.pk] = Role.LEAD
    policies.add(team.pk, text, actor=Actor.system("test"))
    rng, seen = random.Random(32), set()
    for number in range(ROUNDS):
        action = ask(FORCE if number % 3 == 0 else PUSH, session=f"round {number}")
        crowd, about = reviewers[: 2 + number % 4], Round(action)
        ways = [rng.choice(WAYS) for _ in crowd]
        results = at_once(*(partial(getattr(about, way), who) for who, way in zip(crowd, ways, strict=True)))
        strange = [result for result in results if result is not None and not isinstance(result, Problem)]
        assert strange == [], (ways, strange)
        assert {result.status for result in results if result} <= {409}, (ways, results)
        action.refresh_from_db()
        check_outcome(action)
        seen.add(action.status)
        if action.status == Status.PENDING:  # an agent has at most 100
            gate.cancel(action, caller=caller)
    assert {Status.APPROVED, Status.DENIED, Status.EXPIRED} <= seen
    twice = Action.objects.annotate(finals=Count("decisions", filter=Q(decisions__final=True))).filter(finals__gt=1)
    assert not twice.exists()
    assert not Decision.objects.filter(final=True, action__status=Status.PENDING).exists()
    check_log(team)


def test_many_reviewers_answer_many_at_once(ask, reviewers, team):  # noqa: F811
    """Bulk: two people answer the same twelve, one yes and one no, from both ends."""
    for number in range(max(1, ROUNDS // 15)):
        waiting = [ask(PUSH, session=f"bulk {number} {each}") for each in range(12)]

        def answer(who, verdict, actions):
            won = 0
            for action in actions:
                with suppress(Problem):  # the other one was first
                    gate.decide(gate.find(action.pk, caller=who), Answer(verdict, action.digest), caller=who)
                    won += 1
            return won

        yes, no = at_once(
            lambda waiting=waiting: answer(reviewers[0], "approve", waiting),
            lambda waiting=waiting: answer(reviewers[1], "deny", waiting[::-1]),
        )
        pks = [action.pk for action in waiting]
        approved = Action.objects.filter(pk__in=pks, status=Status.APPROVED).count()
        denied = Action.objects.filter(pk__in=pks, status=Status.DENIED).count()
        assert (approved, denied, yes + no) == (yes, no, 12)
    check_log(team)


def test_fifty_threads_over_twenty_uses_are_exactly_twenty(ask, reviewers, caller, team):  # noqa: F811
    action = ask(PUSH)
    grants.approve_and_grant(action, caller=reviewers[0], digest=action.digest, uses=USES)

    def submit(number):
        return gate.submit(Call("Bash", PUSH, session=f"thread {number}"), caller=caller)[0].status

    results = at_once(*(lambda number=number: submit(number) for number in range(THREADS)))
    assert sorted(map(str, results)) == ["approved"] * USES + ["pending"] * (THREADS - USES)
    assert Grant.objects.get().uses_left == 0
    assert Action.objects.exclude(pk=action.pk).filter(grant__isnull=False).count() == USES
    check_log(team)
