"""The page of what was installed says in words where nothing can be kept, and who may keep."""

import pytest

from dashboard.database import clock
from workspaces.models import Environment, HomeLayer, Operation, Workspace

HERE = "/w/payments/repo-task-1/installed/"


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("folder", "A connected folder has no home of its own"),
        ("microvm", "The home of a microVM is on a disk of its own"),
    ],
)
def test_a_driver_that_cannot_says_so(workspace, lena, browser_of, read, driver, words):
    Environment.objects.filter(pk=workspace.environment_id).update(driver=driver)
    assert words in read(browser_of(lena), HERE)
    browser_of(lena).post(HERE, {"folder": "bin"})
    assert not Operation.objects.filter(kind="keep_installed").exists()


def test_the_root_of_a_container_is_said_to_be_read_only(workspace, lena, browser_of, read):
    Environment.objects.filter(pk=workspace.environment_id).update(driver="docker")
    Workspace.objects.filter(pk=workspace.pk).update(state="archived")
    text = read(browser_of(lena), HERE)
    assert "root is read-only while agents work" in text
    assert "It has no home now" in text


def test_only_leads_keep_and_only_places_of_installs(workspace, lena, bob, browser_of):
    assert browser_of(bob).post(HERE, {"folder": "bin"}).status_code == 403
    for folders in ([], [".ssh"], ["bin", "../x"]):
        browser_of(lena).post(HERE, {"folder": folders})
    assert not Operation.objects.filter(kind="keep_installed").exists()
    answer = browser_of(lena).post(HERE, {"folder": ["bin", "bin"]})
    [operation] = Operation.objects.filter(kind="keep_installed")
    assert answer.headers["Location"].endswith(f"/operations/{operation.pk}/")
    assert operation.args == {"folders": ["bin"], "former": None}


def test_going_back_needs_a_lead_and_a_layer(workspace, lena, bob, browser_of):
    there = f"/environments/{workspace.environment_id}/go-back/"
    browser_of(lena).post(there)
    assert Environment.objects.count() == 1
    made = {"tree": b"t" * 32, "key": "repo-task-0", "operation": workspace.pk, "created_at": clock.now()}
    layer = HomeLayer.objects.create(team=workspace.team, **made)
    Environment.objects.update(home_layer=layer)
    assert browser_of(bob).post(there).status_code == 403
    browser_of(lena).post(there)
    assert list(Environment.objects.order_by("version").values_list("version", "home_layer")) == [
        (1, layer.pk),
        (2, None),
    ]
