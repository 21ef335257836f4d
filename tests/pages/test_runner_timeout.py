"""One threshold says whether a runner is alive: pages, drivers, limits and the doctor agree."""

from datetime import timedelta

import pytest
from django.conf import settings

from dashboard.database import clock
from dashboard.ops import doctor
from workspaces.models import RUNNER_TIMEOUT, Runner
from workspaces.provisioning import isolation
from workspaces.services import environments

BEFORE, AFTER = RUNNER_TIMEOUT - timedelta(seconds=10), RUNNER_TIMEOUT + timedelta(seconds=10)


@pytest.mark.parametrize(("age", "alive"), [(BEFORE, True), (AFTER, False), (None, False)])
def test_every_reader_uses_the_same_threshold(lena, workspace, browser_of, read, age, alive):
    heard = None if age is None else clock.now() - age
    able = {"docker": {"available": True, "limits": []}, "sandbox": {"available": True, "limits": ["pids"]}}
    runner = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=heard, capabilities=able)
    workspace.environment.limits = {"pids": 50}
    assert {
        "rows": list(Runner.objects.alive()) == [runner],
        "row": runner.is_alive,
        "page": "Runner OK" in read(browser_of(lena), "/"),
        "drivers": isolation.available() == ["sandbox", "docker"],
        "limits": environments.limits_of(workspace.environment)[2].is_enforced,
        "doctor": next(found.ok for found in doctor.needed_to_work() if found.part == "runner"),
    } == dict.fromkeys(("rows", "row", "page", "drivers", "limits", "doctor"), alive)
