"""A command that is not over, as programs read it."""

import pytest

from tests.pages.conftest import make_command
from workspaces.models import Phase

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("wait", ["", "?wait=0.1"])
@pytest.mark.parametrize("phase", [Phase.DUE, Phase.CLAIMED, Phase.STARTED])
def test_a_command_that_is_not_over_is_told_as_it_is(workspace, alice, api, token_of, phase, wait):
    command = make_command(workspace, phase=phase)
    answer = api(token_of(alice)).get(f"/api/v1/commands/{command.pk}{wait}")
    assert (answer.status_code, answer.json()["state"], answer.json()["ended_at"]) == (200, phase, None)
