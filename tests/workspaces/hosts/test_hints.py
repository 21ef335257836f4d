"""Commits of one host wake the waiters of another, and a host alone sends nothing."""

import threading

import pytest
from django.db import connection

from dashboard.workers import hints


@pytest.fixture
def several(settings):
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL has NOTIFY")
    settings.HANDRAIL_RUNNER_ADDRESS = "127.0.0.1:8443"


@pytest.mark.django_db(transaction=True)
def test_a_wake_up_of_another_host_is_heard_and_ones_own_is_not(several, settings):
    heard, times = threading.Event(), []
    settings.HANDRAIL_HOST_NAME = "a"
    hints.listen_forever(hints.RUNNERS, lambda: (times.append(1), heard.set()))
    while not heard.is_set():  # until the thread listens
        settings.HANDRAIL_HOST_NAME = "b"
        hints.send(hints.RUNNERS)
        heard.wait(2)
    count = len(times)
    settings.HANDRAIL_HOST_NAME = "a"
    hints.send(hints.RUNNERS)
    settings.HANDRAIL_HOST_NAME = "b"
    hints.send(hints.FEEDS)
    heard.clear()
    hints.send(hints.RUNNERS)
    assert heard.wait(10)
    assert len(times) == count + 1


def test_a_host_alone_sends_nothing(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        hints.send(hints.FEEDS)
