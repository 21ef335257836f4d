"""A program whose shim was killed between its claim and the start certainly did not run, and its operation says so."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from uuid import uuid4

from tests.support import CHECKOUT
from workspaces.runner import programs

CLAIMS = """
import sys
from pathlib import Path
from workspaces.shim.record import claim
claim(Path(sys.argv[1]), by="shim")
"""


def test_a_program_killed_before_its_start_is_reported_as_not_started(tmp_path, settings):
    settings.HANDRAIL_HOME = tmp_path
    job = SimpleNamespace(workspace=SimpleNamespace(pk=uuid4()), operation=SimpleNamespace(pk=uuid4()))
    where = programs.folder(job)
    where.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", CLAIMS, where], cwd=CHECKOUT, check=True)
    told = asyncio.run(programs._follow(job))
    assert (told["ok"], told["reason_code"], "uncertain" in told) == (False, "not_started", False)
    assert told["reason"].startswith("It did not start")
