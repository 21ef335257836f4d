"""Try it first: where that cannot be done the card says so, and a try that was lost is not waited for."""

import pytest

from approvals.models import Action
from dashboard.database import clock
from workspaces.models import Environment, Operation, Phase, Rehearsal
from workspaces.services import rehearsals

from .conftest import PUSH


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("folder", "can't be tried first in a connected folder"),
        ("microvm", "doesn't hold programs in envelopes"),
        ("sandbox", "doesn't hold programs in envelopes"),
    ],
)
def test_the_card_says_where_a_command_cannot_be_tried(ask, workspace, bob, browser_of, driver, words):
    Environment.objects.update(driver=driver)
    workspace.environment.refresh_from_db()
    action = ask(PUSH, workspace=workspace, mode="broker")
    client, address = browser_of(bob), f"/actions/{action.pk}/"
    card = client.get(address).content.decode().replace("&#x27;", "'")
    assert words in card
    assert "Try it first</button>" not in card
    refused = client.post(f"{address}rehearse/", follow=True).content.decode().replace("&#x27;", "'")
    assert refused.count(words) > card.count(words)
    assert not Rehearsal.objects.exists()


def test_a_container_holds_no_envelope_and_its_card_says_what_holds_instead(ask, workspace, bob, browser_of):
    Environment.objects.update(driver="docker")
    workspace.environment.refresh_from_db()
    action = ask(PUSH, workspace=workspace, mode="broker")
    card = browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    assert "Try it first</button>" in " ".join(card.split()).replace("Try it first </button>", "Try it first</button>")
    assert "in a container of its own, without an envelope" in card


def test_a_command_that_the_agent_runs_itself_is_not_offered_to_be_tried(ask, workspace, bob, browser_of):
    action = ask(PUSH, workspace=workspace)
    assert b'id="rehearsal"' not in browser_of(bob).get(f"/actions/{action.pk}/").content


def test_a_rehearsal_whose_operation_was_lost_has_failed(ask, workspace):
    action = ask(PUSH, workspace=workspace, mode="broker")
    operation = Operation.objects.create(workspace=workspace, kind="rehearse", due_at=clock.now())
    tried = Rehearsal.objects.create(workspace=workspace, operation=operation, created_at=clock.now())
    Action.objects.filter(pk=action.pk).update(rehearsal=tried)
    rehearsals.sweep()
    tried.refresh_from_db()
    assert tried.status == "running"
    Operation.objects.update(phase=Phase.UNCERTAIN)
    rehearsals.sweep()
    tried.refresh_from_db()
    assert (tried.status, tried.note) == ("failed", "It was lost. Try it again.")
