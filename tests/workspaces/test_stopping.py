"""Long work says how far it is, and can be stopped half-way; nothing of it is left."""

import http.cookiejar
import os
import re
import signal
import threading
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest

from workspaces.store.lock import writing

FILES = 40_000


class Browser:
    """A person without JavaScript: links, forms and cookies."""

    def __init__(self, product, name):
        self.product = product
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies).open
        link = product.sign_in_url(name, "lead")
        self.get(link.removeprefix(product.url))
        self.post(link.removeprefix(product.url))

    def get(self, path):
        with self._open(self.product.url + path, timeout=60) as answer:
            self.text, self.path = answer.read().decode(), urllib.parse.urlsplit(answer.url).path
        self.token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.text)
        return self.text

    def post(self, path):
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self.token.group(1)}).encode()
        there = self.product.url + path
        with self._open(urllib.request.Request(there, body, {"Referer": there}), timeout=60) as answer:
            self.text, self.path = answer.read().decode(), urllib.parse.urlsplit(answer.url).path
        return self.text


@pytest.fixture(scope="module")
def person(product):
    return Browser(product, "stefan")


@pytest.fixture(scope="module")
def key(desk):
    key = desk.create()["key"]
    desk.run(key, f"mkdir many; cd many; seq {FILES} | xargs touch")
    return key


def until(look, words, within=60):
    deadline = time.monotonic() + within
    while not (found := re.search(words, look())):
        assert time.monotonic() < deadline, look()
        time.sleep(0.05)
    return found.group(0)


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
        assert until(lambda: person.get(page), r"\d\d,\d\d\d entries|is taken").endswith("entries")
    assert until(lambda: person.get(f"/w/main/{key}/"), r"Taking a snapshot: .*entries|Checked at|Timeline")
    until(lambda: person.get(page), "is taken")


def test_a_snapshot_that_is_stopped_leaves_nothing(person, desk, product, key):
    before = desk.get(f"/workspaces/{key}/snapshots").json
    size = sum(path.stat().st_size for path in product.home.glob("stores/*/*/*"))
    with ExitStack() as held:
        for store in product.home.glob("stores/*"):
            held.enter_context(writing(store))  # somebody else writes, so the snapshot waits
        person.get(f"/w/main/{key}/")
        person.post(f"/w/main/{key}/snapshots/take/")
        page = person.path
        assert "Stop it" in person.get(page)
        person.post(f"{page}stop/")
        until(lambda: person.get(page), "stopped as asked. Nothing of it was kept")
    assert desk.get(f"/workspaces/{key}/snapshots").json == before
    assert sum(path.stat().st_size for path in product.home.glob("stores/*/*/*")) == size
    assert "Stop it" not in person.get(page)
    assert "Was asked to stop half-way" in person.get(f"/w/main/{key}/")


def test_a_restore_that_is_stopped_touches_nothing(person, desk, product, key):
    desk.run(key, "rm -r many; echo here > here")
    person.get(f"/w/main/{key}/snapshots/1/restore/")
    with ExitStack() as held:
        for store in product.home.glob("stores/*"):
            held.enter_context(writing(store))
        person.post(f"/w/main/{key}/snapshots/1/restore/")
        page = person.path
        person.get(page)
        person.post(f"{page}stop/")
        until(lambda: person.get(page), "stopped as asked. Nothing was put back")
    assert desk.run(key, "cat here") == b"here\n"
