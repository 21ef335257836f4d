"""Long work says how far it is, and can be stopped half-way; nothing of it is left."""

import os
import re
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.visitor import Visitor
from tests.support.waiting import until
from workspaces.store.lock import writing

FILES = 40_000


@pytest.fixture(scope="module")
def person(product):
    return Visitor.named(product, "stefan", "lead")


@pytest.fixture(scope="module")
def key(desk):
    key = desk.create()["key"]
    desk.run(key, f"mkdir many; cd many; seq {FILES} | xargs touch")
    return key


def until_shown(look, words: str) -> str:
    """Wait until the text that `look()` returns has these words; the part that matched."""
    return until(lambda: re.search(words, look())).group(0)


@contextmanager
def slowed(pid):
    """The process runs for a sixth of the time: work that a fast machine has done at once can be watched."""
    over = threading.Event()

    def hold():
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_snapshot_says_how_far_it_is(person, product, key):
    person.get(f"/w/main/{key}/")
    with slowed(product.part_pid("runner")):
        person.post(f"/w/main/{key}/snapshots/take/")
        page = person.path
        assert until_shown(lambda: person.get(page), r"\d\d,\d\d\d entries|taken").endswith("entries")
    assert until_shown(lambda: person.get(f"/w/main/{key}/"), r"Taking a snapshot: .*entries|Checked at|Timeline")
    until_shown(lambda: person.get(page), r"taken\.")


def test_a_snapshot_that_is_stopped_leaves_nothing(person, desk, product, key):
    before = desk.get(f"/workspaces/{key}/snapshots").json
    size = sum(path.stat().st_size for path in product.home.glob("stores/*/*/*"))
    with ExitStack() as held:
        for store in product.home.glob("stores/*"):
            held.enter_context(writing(store))  # somebody else writes, so the snapshot waits
        person.get(f"/w/main/{key}/")
        person.post(f"/w/main/{key}/snapshots/take/")
        page = person.path
        assert ">Stop</button>" in person.get(page)
        person.post(f"{page}stop/")
        until_shown(lambda: person.get(page), "Cancelled. Nothing was kept")
    assert desk.get(f"/workspaces/{key}/snapshots").json == before
    assert sum(path.stat().st_size for path in product.home.glob("stores/*/*/*")) == size
    assert ">Stop</button>" not in person.get(page)
    assert "Operation cancelled" in person.get(f"/w/main/{key}/")


def test_a_restore_that_is_stopped_touches_nothing(person, desk, product, key):
    desk.run(key, "rm -r many; echo here > here")
    person.get(f"/w/main/{key}/snapshots/1/restore/")
    with ExitStack() as held:
        for store in product.home.glob("stores/*"):
            held.enter_context(writing(store))
        person.post(f"/w/main/{key}/snapshots/1/restore/", {"confirmed": "yes"})
        page = person.path
        person.get(page)
        person.post(f"{page}stop/")
        until_shown(lambda: person.get(page), "Cancelled. Nothing was restored")
    assert desk.run(key, "cat here") == b"here\n"
