"""Long polls: answered when something happens, cheap while nothing does, and not without end."""

import asyncio
import json
import socket
import threading
import time

import pytest
from django.db import connection, connections
from django.db.backends.signals import connection_created
from django.test import AsyncClient

from approvals.actions import gate
from approvals.evaluation.calls import Call
from approvals.models import Action
from dashboard.database.threads import QUERY_THREADS, REQUEST_THREADS
from dashboard.keys.key_files import make_private
from dashboard.live import feed, long_poll
from dashboard.live.long_poll import _open as open_polls

from ..conftest import ACTIONS, LIST, PUSH

pytestmark = pytest.mark.django_db(transaction=True)


def polls(token, paths):
    """Get all of them at once, as so many agents; (status, JSON, seconds) each."""

    async def one(client, path):
        begun = time.monotonic()
        answer = await client.get(path, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, json.loads(answer.content), time.monotonic() - begun

    async def all_of_them():
        client = AsyncClient()
        return await asyncio.gather(*(one(client, path) for path in paths))

    return asyncio.run(all_of_them())


@pytest.fixture
def later():
    """`later(seconds, function)`: in a thread with a connection of its own."""
    started = []

    def start(seconds, function):
        def run():
            time.sleep(seconds)
            function()
            connections.close_all()

        started.append(threading.Thread(target=run))
        started[-1].start()

    yield start
    for thread in started:
        thread.join()


def test_a_poll_hears_the_answer(ask, decide, bob, agent_token, later):
    action = ask(PUSH)
    later(0.5, lambda: decide(action, by=bob))
    [(status, seen, seconds)] = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=30"])
    assert (status, seen["status"], seconds < 20) == (200, "approved", True)


def test_a_commit_wakes_a_poll_without_the_tick(ask, decide, bob, agent_token, later, monkeypatch):
    monkeypatch.setattr(feed, "POLL_INTERVAL", 3600)
    monkeypatch.setattr(long_poll, "RECHECK_INTERVAL", 3600)
    action = ask(PUSH)
    later(1, lambda: decide(action, by=bob))
    [(status, seen, seconds)] = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=60"])
    assert (status, seen["status"], seconds < 40) == (200, "approved", True)


def test_a_feed_that_was_killed_is_forgotten(ask, settings):
    left = make_private(make_private(settings.HANDRAIL_RUNTIME) / "feeds") / "1-0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(left))
    ask(PUSH)
    assert not left.exists()


def test_a_poll_ends_when_its_time_is_up(ask, agent_token):
    [(status, seen, seconds)] = polls(agent_token, [f"{ACTIONS}/{ask(PUSH).pk}?wait=0.5"])
    assert (status, seen["status"], seconds >= 0.5) == (200, "pending", True)


def test_a_decided_action_is_answered_at_once(ask, agent_token):
    [(status, seen, seconds)] = polls(agent_token, [f"{ACTIONS}/{ask(LIST).pk}?wait=60"])
    assert (status, seen["status"], seconds < 20) == (200, "approved", True)


def test_a_poll_hears_that_its_action_expired(caller, agent_token, later):
    action, _ = gate.submit(Call(tool="Bash", arguments=PUSH, expires_in_s=1), caller=caller)
    later(1.2, gate.sweep)
    [(_, seen, seconds)] = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=30"])
    assert (seen["status"], seconds < 20) == ("expired", True)


def test_many_wait_and_each_hears_of_its_own(ask, decide, bob, agent_token, later):
    actions = [ask(PUSH) for _ in range(40)]

    def answer_all():
        for action in actions[::2]:
            decide(action, by=bob)

    later(0.5, answer_all)
    answers = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=8" for action in actions])
    assert [seen["status"] for _, seen, _ in answers] == ["approved", "pending"] * 20
    assert open_polls == {}


def test_a_token_does_not_wait_without_end(ask, agent_token, settings):
    settings.HANDRAIL_POLL_LIMIT = 3
    action = ask(PUSH)
    answers = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=2"] * 5)
    assert sorted(status for status, *_ in answers) == [200, 200, 200, 429, 429]
    assert polls(agent_token, [f"{ACTIONS}/{action.pk}"])[0][0] == 200


def test_events_are_waited_for(ask, agent_token, later):
    seen = polls(agent_token, ["/api/v1/events"])[0][1]
    later(0.5, lambda: ask(PUSH))
    [(status, page, seconds)] = polls(agent_token, [f"/api/v1/events?after={seen['cursor']}&wait=30"])
    assert (status, page["events"][0]["verb"], seconds < 20) == (200, "action.submitted", True)


def test_a_denial_that_arrives_after_the_wait_stays_undelivered(ask, decide, caller, bob):
    action = ask(PUSH, session="s")
    read = gate.find(action.pk, caller=caller)
    decide(action, "deny", by=bob)
    gate.mark_heard(read)
    assert Action.objects.get().agent_seen_at is None
    assert ask(PUSH, session="s").pk == action.pk


def test_a_crowd_that_waits_for_one_answer_is_no_crowd_of_connections(ask, decide, bob, agent_token, later):
    opened, action = [], ask(PUSH)

    def count(**_):
        opened.append(threading.current_thread().name)

    connection_created.connect(count)
    later(1, lambda: decide(action, by=bob))
    answers = polls(agent_token, [f"{ACTIONS}/{action.pk}?wait=60"] * 20)
    connection_created.disconnect(count)
    assert [seen["status"] for _, seen, _ in answers] == ["approved"] * 20
    assert len(opened) <= QUERY_THREADS + REQUEST_THREADS + 1  # and bob's


def test_an_event_loop_that_was_closed_keeps_no_connection(ask, agent_token):
    """A command or a test starts an event loop for each call; their threads must not add up."""
    action = ask(PUSH)
    for _ in range(5):
        assert polls(agent_token, [f"{ACTIONS}/{action.pk}"] * 2)[0][0] == 200
    kept = [thread for thread in threading.enumerate() if thread.name in ("query", "request")]
    assert len(kept) <= 2 * (QUERY_THREADS + 2)  # of this loop, and of the last one while its threads end


def test_a_waiting_request_holds_no_database_connection(ask, agent_token):
    """Three hundred that wait must not be three hundred open databases."""
    if connection.vendor != "sqlite":
        return
    from pathlib import Path

    database = str(connection.settings_dict["NAME"])

    def held():
        links = (Path(link) for link in Path("/proc/self/fd").iterdir())
        return sum(link.is_symlink() and str(link.resolve()) == database for link in links)

    before, during = held(), []

    async def wait_and_count():
        client = AsyncClient()
        asked = [asyncio.ensure_future(client.get(f"{ACTIONS}/{pk}?wait=3", headers=bearer)) for pk in pks]
        await asyncio.sleep(2)
        during.append(held())
        await asyncio.gather(*asked)

    bearer = {"Authorization": f"Bearer {agent_token}"}
    pks = [ask(PUSH).pk for _ in range(10)]
    asyncio.run(wait_and_count())
    assert during[0] <= before + 3
