"""A hook that is held: who lets go of it, what a lost connection loses, and how long it lasts."""

import asyncio
from datetime import timedelta

import psycopg
import pytest
from django.db import OperationalError

from approvals.actions import gate, submission
from approvals.hooks import open_hooks, view
from approvals.models import Action, Status
from dashboard.database import clock, outages
from dashboard.models import Agent, Event

from ..conftest import LIST, PUSH, WIPE, before, send_hook

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(seconds=86_400)
MARGIN = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(open_hooks, "GRACE", 0.3)


async def until_there_are(status, count=1):
    for _ in range(5000):
        if await Action.objects.filter(status=status).acount() == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError([(a.number, a.status) async for a in Action.objects.all()])


async def held(*askers, count=1):
    """Start the hooks one after the other, and return their tasks once `count` cards wait and all are open."""
    tasks = []
    for asker in askers:
        tasks.append(asyncio.ensure_future(asker))
        await until_there_are(Status.PENDING, min(count, len(tasks)))
        await asyncio.sleep(0.2)
    return tasks


@pytest.fixture
def in_thread(decide, bob):
    """`await in_thread(verdict)`: bob answers the one card, as another request does."""

    async def answer(verdict="approve"):
        await asyncio.to_thread(lambda: decide(Action.objects.get(status=Status.PENDING), verdict, by=bob))

    return answer


def test_an_outage_after_an_approval_was_used_makes_no_second_action(agent_token, monkeypatch):
    monkeypatch.setattr(submission, "SAME_EVENT", timedelta(0))  # as if the outage took longer
    monkeypatch.setattr(outages, "PAUSE", 0.05)
    away = OperationalError("the connection is lost")
    away.__cause__ = psycopg.OperationalError("the connection is lost")
    keep, failing = view._record_conversation, [away]

    def keep_later(*arguments):
        if failing:
            raise failing.pop()
        keep(*arguments)

    monkeypatch.setattr(view, "_record_conversation", keep_later)
    answer = asyncio.run(send_hook(agent_token, before(LIST)))
    assert answer.json["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert not failing
    assert Action.objects.values_list("status", flat=True).get() == Status.RUNNING


# Who lets go -------------------------------------------------------------------------------------------------------


def test_an_agent_that_closes_its_connection_takes_its_card_back(agent_token):
    async def leave():
        gone = asyncio.Event()
        [asked] = await held(send_hook(agent_token, before(PUSH), gone=gone))
        gone.set()
        await asyncio.wait_for(asked, 5)
        await until_there_are(Status.CANCELLED)

    asyncio.run(leave())
    action = Action.objects.get()
    assert action.result == {"by": "claude", "note": "The agent stopped waiting."}
    assert Event.objects.filter(verb="action.cancelled", subject_id=str(action.pk)).count() == 1


def test_a_desk_that_shuts_down_takes_nothing_back_and_the_same_event_finds_its_answer(agent_token, in_thread):
    async def shut_down():
        [asked] = await held(send_hook(agent_token, before(PUSH)))
        asked.cancel()  # as daphne does with all that is open
        await asyncio.wait([asked])
        await asyncio.sleep(1)

    asyncio.run(shut_down())
    assert Action.objects.get().status == Status.PENDING

    async def ask_again():
        [asked] = await held(send_hook(agent_token, before(PUSH)))
        await in_thread()
        return await asyncio.wait_for(asked, 10)

    assert asyncio.run(ask_again()).decision == ("allow", "Approved by bob (A-1).")
    assert Action.objects.count() == 1


def test_an_agent_that_asks_again_at_once_keeps_its_card(agent_token, in_thread):
    async def reconnect():
        gone = asyncio.Event()
        [first] = await held(send_hook(agent_token, before(PUSH), gone=gone))
        gone.set()
        await asyncio.wait_for(first, 5)
        [again] = await held(send_hook(agent_token, before(PUSH)))
        await asyncio.sleep(1)
        await in_thread()
        return await asyncio.wait_for(again, 10)

    assert asyncio.run(reconnect()).decision[0] == "allow"
    assert Action.objects.get().status == Status.RUNNING


def test_the_card_stays_while_its_agent_waits_at_another_web(agent_token, in_thread, monkeypatch):
    """Each web knows its own hooks only: the newest hook of a call is the one that may take its card back."""
    monkeypatch.setattr(open_hooks, "is_waiting", lambda call_hash: False)

    async def move():
        gone = asyncio.Event()
        first, second = await held(
            send_hook(agent_token, before(PUSH), gone=gone), send_hook(agent_token, before(PUSH)), count=1
        )
        gone.set()
        await asyncio.wait_for(first, 5)
        await asyncio.sleep(1)
        assert (await Action.objects.aget()).status == Status.PENDING
        await in_thread()
        return await asyncio.wait_for(second, 10)

    assert asyncio.run(move()).decision[0] == "allow"


def test_the_card_stays_while_another_asks_for_the_same(agent_token):
    async def one_leaves():
        gone = asyncio.Event()
        two = [before(PUSH, call_id=f"toolu_{n}") for n in (1, 2)]
        first, second = await held(send_hook(agent_token, two[0], gone=gone), send_hook(agent_token, two[1]))
        gone.set()
        await asyncio.wait_for(first, 5)
        await asyncio.sleep(1)
        status = (await Action.objects.aget()).status
        second.cancel()
        return status

    assert asyncio.run(one_leaves()) == Status.PENDING


# Two hooks of one event ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_two_hooks_of_one_event_share_a_card_and_its_answer(agent_token, in_thread, verdict):
    """A folder's own hook and the machine's ask at the same time, and Claude Code obeys each no."""

    async def both():
        tasks = await held(send_hook(agent_token, before(PUSH)), send_hook(agent_token, before(PUSH)))
        await in_thread(verdict)
        return [answer.decision for answer in await asyncio.gather(*tasks)]

    yes, no = ("allow", "Approved by bob (A-1)."), ("deny", "bob denied this. Do not work around this.")
    assert asyncio.run(both()) == [yes if verdict == "approve" else no] * 2
    assert Action.objects.count() == 1
    assert Event.objects.filter(verb="action.consumed").count() == (verdict == "approve")


@pytest.mark.parametrize(("call", "decision"), [(LIST, "allow"), (WIPE, "deny")])
def test_two_hooks_of_one_call_get_one_answer(hook, agent_token, call, decision):
    first, second = hook(agent_token, before(call)), hook(agent_token, before(call))
    assert (first.decision, first.decision[0]) == (second.decision, decision)
    assert Action.objects.count() == 1


def test_the_card_stays_while_the_other_hook_of_its_event_waits_and_goes_with_it(agent_token):
    async def leave_in_turn():
        gone = [asyncio.Event(), asyncio.Event()]
        tasks = await held(*(send_hook(agent_token, before(PUSH), gone=event) for event in gone))
        found = []
        for event, task in zip(gone, tasks, strict=True):
            event.set()
            await asyncio.wait_for(task, 5)
            await asyncio.sleep(1)
            found.append((await Action.objects.aget()).status)
        return found

    assert asyncio.run(leave_in_turn()) == [Status.PENDING, Status.CANCELLED]


def test_the_hook_that_stays_hears_the_yes(agent_token, in_thread):
    async def first_leaves():
        gone = asyncio.Event()
        leaving, staying = send_hook(agent_token, before(PUSH), gone=gone), send_hook(agent_token, before(PUSH))
        first, second = await held(leaving, staying)
        gone.set()
        await asyncio.wait_for(first, 5)
        await asyncio.sleep(1)
        await in_thread()
        return (await asyncio.wait_for(second, 10)).decision

    assert asyncio.run(first_leaves()) == ("allow", "Approved by bob (A-1).")
    assert Action.objects.get().status == Status.RUNNING


def test_two_calls_that_are_alike_share_a_card_and_one_of_them_runs(agent_token, in_thread):
    async def two_events():
        calls = [before(PUSH, call_id=f"toolu_{n}") for n in (1, 1, 2, 2)]
        tasks = await held(*(send_hook(agent_token, call) for call in calls))
        await in_thread()
        return [answer.decision[0] for answer in await asyncio.gather(*tasks)]

    decisions = asyncio.run(two_events())
    assert sorted([decisions[:2], decisions[2:]]) == [["allow", "allow"], ["deny", "deny"]]
    assert Event.objects.filter(verb="action.consumed").count() == 1


def test_the_newer_of_two_calls_without_an_id_gets_the_approval(agent_token, in_thread):
    """The older one may be dead without anybody's knowing."""

    async def both():
        tasks = await held(*(send_hook(agent_token, before(PUSH, call_id="")) for _ in range(2)))
        await in_thread()
        return [answer.decision for answer in await asyncio.gather(*tasks)]

    assert asyncio.run(both()) == [
        ("deny", "The same call was made again. Its answer goes to the newer request."),
        ("allow", "Approved by bob (A-1)."),
    ]


def test_an_event_long_answered_is_asked_about_again(hook, agent_token):
    hook(agent_token, before(LIST))
    Action.objects.update(consumed_at=clock.now() - timedelta(minutes=1))
    assert hook(agent_token, before(LIST)).decision == ("allow", "Allowed by policy 1 (A-2).")


# A yes that was lost on its way ------------------------------------------------------------------------------------


@pytest.fixture
def lost_yes(agent_token, in_thread):
    """A card whose approval was used up by a hook that died with its answer unsent."""

    class Broken(Exception):
        pass

    async def send(message):
        raise Broken

    async def lose():
        [asked] = await held(send_hook(agent_token, before(PUSH), send=send))
        await in_thread()
        with pytest.raises(Broken):
            await asyncio.wait_for(asked, 10)

    asyncio.run(lose())
    return Action.objects.get()


def test_a_yes_that_was_lost_is_given_to_the_same_event_once(lost_yes, hook, agent_token, settings):
    settings.HANDRAIL_HOLD_SECONDS = 1
    assert (lost_yes.status, lost_yes.agent_seen_at) == (Status.RUNNING, None)
    Action.objects.update(consumed_at=clock.now() - timedelta(minutes=1))
    assert hook(agent_token, before(PUSH)).decision == ("allow", "Approved by bob (A-1).")
    assert Event.objects.filter(verb="action.consumed").count() == 1
    assert hook(agent_token, before(PUSH)).decision[1].startswith("Not approved yet (A-2).")


def test_a_yes_that_was_lost_is_not_for_another_event(lost_yes, hook, agent_token, settings):
    settings.HANDRAIL_HOLD_SECONDS = 1
    assert hook(agent_token, before(PUSH, call_id="toolu_2")).decision[1].startswith("Not approved yet (A-2).")


def test_all_hooks_of_the_event_hear_the_lost_yes_and_it_is_used_up_once(lost_yes, agent_token, settings):
    settings.HANDRAIL_HOLD_SECONDS = 1

    async def many():
        return await asyncio.gather(*(send_hook(agent_token, before(PUSH)) for _ in range(5)))

    assert [answer.decision for answer in asyncio.run(many())] == [("allow", "Approved by bob (A-1).")] * 5
    assert Event.objects.filter(verb="action.consumed").count() == 1


# How long ----------------------------------------------------------------------------------------------------------


def test_a_hooks_action_ends_five_minutes_before_the_hook_does_and_is_not_extended_beyond(
    hook, agent_token, person, bob, settings
):
    settings.HANDRAIL_HOLD_SECONDS = 1
    settings.HANDRAIL_EXPIRY_SECONDS = 7 * 86_400
    hook(agent_token, before(PUSH))
    action = Action.objects.get()
    assert action.expires_at == action.created_at + DAY - MARGIN
    gate.extend(action, caller=person(bob))
    action.refresh_from_db()
    assert action.expires_at == action.created_at + DAY - MARGIN


def test_a_hook_is_held_as_long_as_that_unless_somebody_says_less(settings):
    assert (DAY - MARGIN).total_seconds() == settings.HANDRAIL_HOLD_SECONDS


@pytest.mark.parametrize("how", ["paused", "revoked"])
def test_an_agent_that_lost_its_right_while_waiting_is_refused(agent_token, agent, in_thread, how):
    def lose_it():
        if how == "paused":
            Agent.objects.filter(pk=agent.pk).update(paused_at=clock.now())
        else:
            agent.tokens.update(revoked_at=clock.now())

    async def hold_on():
        [asked] = await held(send_hook(agent_token, before(PUSH)))
        await asyncio.to_thread(lose_it)
        await in_thread()
        return await asyncio.wait_for(asked, 10)

    assert asyncio.run(hold_on()).decision[0] == "deny"
    assert Action.objects.get().status == Status.APPROVED
