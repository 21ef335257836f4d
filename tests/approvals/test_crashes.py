"""kill -9 while the broker writes a file (tests/faults has all other kill points).

`HANDRAIL_TEST_ROUNDS` sets how often it is hit.
"""

import os
import time
import urllib.error

import pytest

from .broker.test_broker import OVER, Brokered
from .conftest import ACTIONS

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))
GONE = (OSError, urllib.error.URLError)  # what a client sees of a server that was killed


class Crashing:
    """A product that dies at one point each time it is armed, and an agent that tries again."""

    def __init__(self, product, flag):
        self.product, self.flag = product, flag

    def arm(self):
        self.flag.touch()

    def insist(self, method, path, token, body=None, **headers):
        """As a client does: try again, the same, until there is an answer."""
        for _ in range(60):
            try:
                return self.product.call(method, path, token, body, headers=headers, timeout=30)
            except GONE:
                time.sleep(0.5)
        raise AssertionError(f"no answer from {path}:\n{self.product.log[-3000:]}")


@pytest.fixture
def crashing(new_product, tmp_path):
    def make(point):
        flag = tmp_path / "armed"
        product = new_product(HANDRAIL_FAILPOINT=f"{point}:{flag}")
        product.start()
        return Crashing(product, flag)

    return make


def test_a_brokered_write_is_written_once(crashing):
    site = crashing("K6")
    desk = Brokered(site.product)
    for number in range(ROUNDS):
        desk.put("doubled", b"a")
        site.arm()
        asked = desk.ask("Edit", {"file_path": "doubled", "old_string": "a", "new_string": "aa"})
        for _ in range(60):
            action = site.insist("GET", f"{ACTIONS}/{asked['id']}?wait=5", desk.agent).json
            if action["status"] in OVER:
                break
        assert (number, action["status"], desk.file("doubled")) == (number, "succeeded", b"aa")
