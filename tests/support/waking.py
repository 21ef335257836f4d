"""Whether what a test does wakes the feeds of this host, and so the queue."""

import socket

import pytest


@pytest.fixture
def wakes(settings, tmp_path, django_capture_on_commit_callbacks):
    """`wakes(function, …)`: whether somebody who listens is woken by what the function commits."""
    settings.HANDRAIL_RUNTIME = tmp_path
    (tmp_path / "feeds").mkdir()

    def call(function, *args, **kwargs) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(str(tmp_path / "feeds" / "queue"))
            listening.setblocking(False)
            try:
                with django_capture_on_commit_callbacks(execute=True):
                    function(*args, **kwargs)
                return listening.recv(1) == b"."
            except BlockingIOError:
                return False
            finally:
                (tmp_path / "feeds" / "queue").unlink(missing_ok=True)

    return call
