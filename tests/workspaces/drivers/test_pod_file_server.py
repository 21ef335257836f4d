"""A pod's file server that does not start: the pod says why, and the error of a read repeats it."""

import socket
import subprocess
import sys

import pytest

from workspaces.drivers import init_client
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitRefused
from workspaces.drivers.remote import tree
from workspaces.store.guest.protocol import Closed

DRIVERS = init_client.__file__.rpartition("/")[0]
SCRIPT = f"""
import sys
sys.path[:0] = [{DRIVERS!r}, {DRIVERS + "/remote"!r}, {DRIVERS + "/kubernetes/pod"!r}]
import keeper
agent = keeper.PodAgent.__new__(keeper.PodAgent)
agent.servers, agent.failures = {{}}, {{}}
sys.executable = "/nowhere/python"
for ask in (agent.op_serve, agent.op_is_serving):
    try:
        ask({{"folder": "tree", "stream": 1}})
    except (OSError, ValueError) as error:
        print(error)
"""


def test_a_pod_says_why_its_file_server_did_not_start():
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    why = "[Errno 2] No such file or directory: '/nowhere/python'"
    assert said.splitlines() == [why, f"the file server did not start: {why}"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (InitRefused("ValueError: the file server did not start: no memory"), "did not start: no memory. Try again."),
        (InitRefused("KeyError: no such request"), "it is pausing or ending. Try again."),
        (None, "it is pausing or ending. Try again."),
    ],
)
def test_files_that_cannot_be_reached_say_what_the_pod_said(monkeypatch, tmp_path, answer, words):
    class Init:
        def __init__(self, *_, **__): ...

        def __enter__(self):
            return self

        def __exit__(self, *_): ...

        def request(self, op, **_):
            if op == "is_serving" and answer is not None:
                raise answer

    def greet(*_):
        raise Closed

    monkeypatch.setattr(tree, "InitClient", Init)
    asked = tree.GuestTree(tmp_path / "port", "", name="tree")
    monkeypatch.setattr(asked, "_greeted", greet)
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(str(tmp_path / "port"))
        port.listen()
        with pytest.raises(DriverError) as refused, asked.opened():
            pass
    assert str(refused.value).startswith("The workspace's files can't be reached: ")
    assert str(refused.value).endswith(words)
