"""What the cluster says of a pod that does not start, before its status says it."""

from types import SimpleNamespace

import pytest

from workspaces.drivers.kubernetes.states import Trouble, trouble

IMAGE = "registry.example.org/none@sha256:0"


def pod(**status):
    empty = {"phase": "Pending", "conditions": [], "initContainerStatuses": [], "containerStatuses": []}
    container = SimpleNamespace(image=IMAGE)
    return SimpleNamespace(spec=SimpleNamespace(containers=[container]), status=SimpleNamespace(**empty | status))


def event(message: str):
    return SimpleNamespace(reason="Failed", message=message)


@pytest.mark.parametrize("message", ["Error: ImagePullBackOff", f'Failed to pull image "{IMAGE}": refused'])
def test_an_image_that_cannot_be_pulled_is_named_also_before_the_status_says_it(message):
    found = trouble(pod(), [event("Pulling image"), event(message)])
    assert found == Trouble(f"its image cannot be pulled: {IMAGE} ({message})", 60)


def test_another_event_is_told_as_it_is():
    assert trouble(pod(), [event("something else")]) == Trouble("Failed: something else", None)
