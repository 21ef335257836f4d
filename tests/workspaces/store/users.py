"""Run tests once more as an ordinary user, who has none of root's rights."""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
PASSED = ("PATH", "HANDRAIL_TEST_SEED")


def as_user(user, folder, *arguments, **variables):
    """Run pytest with these arguments as a user, who must be able to write to the folder; return how it ended."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(os.fspath, arguments)]
    home = {"TMPDIR": os.fspath(folder), "HOME": os.fspath(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    kept = {name: value for name, value in os.environ.items() if name in PASSED or name.startswith("HANDRAIL_TEST_R")}
    return subprocess.run(
        command,
        user=user,
        group=user,
        extra_groups=[],
        env=kept | home | variables,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
