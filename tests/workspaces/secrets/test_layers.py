"""What a set-up installs is searched before it is kept for the next workspace."""

import base64
import io

import pytest

from tests.pages.conftest import make_workspace
from workspaces import secrets
from workspaces.drivers.base import DriverError
from workspaces.runner import secret_scan

VALUE = "planted-7f3a9c2e5b81"


@pytest.fixture
def workspace(team, agent):
    return make_workspace(team, agent, "repo-task-1")


def test_a_file_that_holds_a_secret_is_refused_by_name(workspace):
    secrets.search_for(workspace, "DEPLOY_KEY", "setup", VALUE)
    inspect = secret_scan.file_inspector(workspace)
    inspect("/opt/tool", io.BytesIO(b"harmless"))
    across = b"x" * (secret_scan.PIECE - 5) + VALUE.encode()
    for content in (VALUE.encode(), base64.b64encode(b"user:" + VALUE.encode()), across):
        with pytest.raises(
            DriverError, match=r"^Setup's installed files were not saved: /opt/tool holds .* DEPLOY_KEY"
        ):
            inspect("/opt/tool", io.BytesIO(content))
    with pytest.raises(DriverError, match="DEPLOY_KEY"):
        inspect(f"/opt/{VALUE}", io.BytesIO(b""))


def test_where_no_secret_was_given_nothing_is_searched(workspace):
    assert secret_scan.file_inspector(workspace) is None
