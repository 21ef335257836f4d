"""Calls made to take long: web answers others meanwhile, and does little for each of them itself."""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from approvals.evaluation.context.symlinks import MAX_PATHS, _paths
from approvals.hooks import intake_limit
from approvals.models import Action
from bench.policy import hostile
from dashboard.models import Agent
from dashboard.people.tokens import make_token
from dashboard.problems import Problem
from dashboard.text import strict_json
from dashboard.workers.turns import for_whom
from tests.support.product import Product

from .conftest import ACTIONS

AT_ONCE = 100
SOON = 2.0  # seconds; on an idle machine 0.1, and minutes for one of these calls before there was a limit


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "Bash", "arguments": {"x": [' + "0," * 300_000 + "0]}}",
        '{"tool": "Bash", "arguments": {"x": [' + '"",' * 200_000 + "0]}}",
        '{"tool": "Bash", "arguments": {' + ",".join(f'"{i}":0' for i in range(60_000)) + "}}",
        '{"tool": "Bash", "arguments": {"x": [' + "{}," * 200_000 + "0]}}",
    ],
    ids=["numbers", "strings", "keys", "objects"],
)
def test_json_of_very_many_values_is_refused_before_it_is_read(post, agent_token, text):
    status, problem = post(agent_token, ACTIONS, text)
    assert (status, problem["detail"]) == (422, "The JSON holds more than 20,000 values.")
    assert not Action.objects.exists()


def test_signs_inside_of_strings_are_no_values():
    text = {"content": '[,{:"\\' * 30_000}
    assert strict_json.loads(json.dumps(text).encode()) == text


def test_threads_that_read_json_take_turns_and_all_are_answered():
    raw, answers = json.dumps(list(range(15_000))).encode(), []
    threads = [threading.Thread(target=lambda: answers.append(len(strict_json.loads(raw)))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [15_000] * 20


def test_a_refused_text_gives_its_turn_back():
    for _ in range(5):
        with pytest.raises(Problem):
            strict_json.loads(b"[")
    assert strict_json.loads(b"[]") == []


def test_the_paths_of_a_command_are_tried_a_bounded_number_of_times():
    moves = [{"words": ["cd", f"d{number}"], "targets": []} for number in range(190)]
    steps = [*moves, {"words": ["cat", *(f"w{number}" for number in range(1_000))], "targets": []}]
    started = time.thread_time()
    paths, all_of_them = _paths("Bash", {}, "/workspace", "/workspace", steps)
    assert (len(paths), all_of_them) == (MAX_PATHS, False)
    assert time.thread_time() - started < 0.5
    steps = [{"words": ["cat", "../x"] * 9_000, "targets": []}]
    assert _paths("Bash", {}, "/workspace", "/workspace", steps) == (["cat"], False)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    with_product = Product(tmp_path_factory.mktemp("desk"), HANDRAIL_PENDING_LIMIT="5000")
    with_product.prepare()
    with_product.start()
    yield with_product
    with_product.stop()
    with_product.clean_up()


def test_a_judge_that_hangs_holds_nobody(product):
    """Its call asks a person after the deadline, and the next one has another judge."""
    token = product.agent_token()

    def reason():
        answer = product.post(ACTIONS, token, {"tool": "Bash", "arguments": {"command": "pwd"}}, timeout=120).json
        return answer["reasons"][0]

    judged = reason()
    threads = Path(f"/proc/{product.part_pid('web')}/task").iterdir()
    judges = [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
    assert judges
    for pid in judges:
        os.kill(pid, signal.SIGSTOP)
    assert reason() == "Needs approval: the policy could not be evaluated (it took too long)."
    assert reason() == judged


def test_the_desk_answers_and_stops_everything_while_a_hundred_hostile_calls_are_judged(product):
    token, lead = product.agent_token(), product.person_token("lena", role="lead")
    commands = islice(cycle(hostile.commands().values()), AT_ONCE)
    waits, over = [], threading.Event()

    def look():
        while not over.is_set():
            started = time.monotonic()
            assert product.get("/healthz").status == 200
            waits.append(time.monotonic() - started)
            over.wait(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            asked = [
                pool.submit(
                    product.post, ACTIONS, token, {"tool": "Bash", "arguments": {"command": command}}, timeout=300
                )
                for command in commands
            ]
            time.sleep(1)
            started = time.monotonic()
            stopped = product.post("/api/v1/stop", lead, {}, timeout=300)
            took = time.monotonic() - started
            statuses = {each.result().status for each in asked}
    finally:
        over.set()
        looking.join()
    assert stopped.status == 200
    assert statuses <= {201, 409}  # asked before the stop, or after it
    assert max(waits) < SOON
    assert took < 2 * SOON
    print(f"healthz: {len(waits)} looks, longest {max(waits) * 1000:.0f} ms; stop {took * 1000:.0f} ms")


def test_few_calls_are_taken_in_at_a_time_and_other_requests_pass_them():
    inside, most, passed = 0, 0, []

    async def app(scope, receive, send):
        nonlocal inside, most
        if scope["path"] != intake_limit.ACTIONS_PATH:
            passed.append(scope["path"])
            return
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1

    async def ask(path):
        await intake_limit.in_turn(app)({"type": "http", "method": "POST", "path": path}, None, None)

    async def all_of_them():
        await asyncio.gather(*(ask(intake_limit.ACTIONS_PATH) for _ in range(20)), ask("/api/v1/stop"))

    asyncio.run(all_of_them())
    assert (inside, most, passed) == (0, 4, ["/api/v1/stop"])  # all of them are of nobody, who may take 4 of 10


def test_slow_calls_of_one_agent_hold_up_no_other(db, team):
    """One agent's calls take until the others were answered; those of two others pass, whatever judges they need."""
    slow, *others = (Agent.objects.create(team=team, name=name) for name in ("slow", "one", "two"))
    tokens = {agent: make_token(team, agent=agent) for agent in (slow, *others)}
    over, inside, answered = asyncio.Event(), Counter(), []

    async def app(scope, receive, send):
        agent = for_whom.get()
        inside[agent] += 1
        if agent == str(slow.pk):
            await over.wait()
        answered.append(agent)
        inside[agent] -= 1

    async def ask(agent):
        headers = [(b"authorization", f"Bearer {tokens[agent]}".encode())]
        scope = {"type": "http", "method": "POST", "path": intake_limit.ACTIONS_PATH, "headers": headers}
        await intake_limit.in_turn(app)(scope, None, None)

    async def all_of_them():
        held_up = [asyncio.create_task(ask(slow)) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.gather(*(ask(agent) for agent in others for _ in range(20)))
        assert set(answered) == {str(agent.pk) for agent in others}
        assert inside[str(slow.pk)] == 4
        held_up.pop().cancel()
        over.set()
        await asyncio.gather(*held_up)

    async_to_sync(all_of_them)()
    assert (len(answered), inside.total()) == (59, 0)
