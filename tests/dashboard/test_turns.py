"""Turns are shared fairly: who holds many waits until others hold few, and nothing is lost when somebody gives up."""

import random
import threading
from collections import Counter

import pytest

from dashboard.workers.pool import Busy, Workers
from dashboard.workers.turns import Turns, for_whom


def granted(turns, *names):
    return [turns.ask(who).done() for who in names]


def test_an_agent_cannot_take_all_turns():
    turns = Turns(10)
    assert granted(turns, *["a"] * 6).count(True) == 4
    assert granted(turns, *["b"] * 6).count(True) == 2
    assert granted(turns, "c", "d") == [True, True]
    assert granted(turns, *[""] * 3) == [True, True, False]  # people are bound by the number alone


def test_one_of_two_judges_is_left_to_others_and_the_only_one_is_nobodys():
    assert granted(Turns(2), "a", "a", "b") == [True, False, True]
    assert granted(Turns(1), "a", "b") == [True, False]


def test_agents_together_leave_free_what_is_for_people():
    turns = Turns(3, for_people=1)
    assert granted(turns, "a", "b", "c") == [True, True, False]
    assert granted(turns, "", "") == [True, False]
    turns.release("")  # it goes to the person who waits, though the agent came before
    assert granted(turns, "") == [False]
    turns.release("a")
    assert turns._held == {"": 1, "b": 1, "c": 1}


def test_what_people_hold_is_what_was_kept_for_them():
    turns = Turns(3, for_people=1)
    assert granted(turns, "", "a", "b") == [True, True, True]


def test_the_oldest_that_may_begins_when_a_turn_ends():
    turns = Turns(2)
    turns.ask("a")
    second, other, third = turns.ask("a"), turns.ask("b"), turns.ask("c")
    assert (second.done(), other.done(), third.done()) == (False, True, False)
    turns.release("b")
    assert (second.done(), third.done()) == (False, True)
    turns.release("a")
    assert second.done()


def test_a_caller_that_gives_up_frees_its_turn():
    turns = Turns(1)
    first, second, third = turns.ask("a"), turns.ask("b"), turns.ask("c")
    turns.withdraw("b", second)
    turns.withdraw("a", first)  # its turn had begun
    assert (second.done(), third.done()) == (False, True)
    turns.release("c")
    assert granted(turns, "d") == [True]


def test_threads_never_hold_more_than_there_are():
    turns, held, most, lock = Turns(3), Counter(), Counter(), threading.Lock()

    def work(seed):
        chance = random.Random(seed)
        for _ in range(100):
            who = chance.choice("abc")
            future = turns.ask(who)
            if chance.random() < 0.2:
                turns.withdraw(who, future)
                continue
            future.result(30)
            with lock:
                held[who] += 1
                most["all"] = max(most["all"], held.total())
            with lock:
                held[who] -= 1
            turns.release(who)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most["all"] <= 3
    assert granted(turns, "", "", "", "") == [True, True, True, False]


class Standing:
    """A worker that answers when it is told to."""

    lives = True

    def __init__(self):
        self.may = threading.Event()

    def ask(self, request, seconds):
        self.may.wait(30)
        return {}

    def end(self):
        pass


def test_a_judge_is_left_to_others_while_one_agent_keeps_the_rest():
    made = []
    pool = Workers(lambda: made.append(Standing()) or made[-1], 2, queue_seconds=0.05)

    def ask(who):
        for_whom.set(who)
        return pool.ask({}, 1)

    first = threading.Thread(target=ask, args=["a"])
    first.start()
    while not made:
        pass
    for_whom.set("a")
    with pytest.raises(Busy):
        pool.ask({}, 1)
    other = threading.Thread(target=ask, args=["b"])
    other.start()
    while len(made) < 2:
        pass
    for each in made:
        each.may.set()
    first.join()
    other.join()
    for_whom.set("")
