"""Run git in a user's folder, with the configuration overridden that would run a program of the repository.

Neither is git found by the PATH of the shell, whose first folder agents of this user can often write.
"""

import os
import subprocess
from pathlib import Path

from django.conf import settings


def git(folder: Path, *args) -> subprocess.CompletedProcess:
    """Run git in the folder; the result has the exit status and output. TimeoutExpired after 30 seconds."""
    config = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "safe.directory": "*"}
    env = {"PATH": settings.HANDRAIL_CODE_HOST_PATH, "HOME": os.environ.get("HOME", "/"), "GIT_CONFIG_COUNT": "3"}
    for number, (name, value) in enumerate(config.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, timeout=30, check=False)


def is_own(folder: Path, name: Path) -> bool:
    """Return whether the folder is in a git repository that does not track this file, so that it is the user's own."""
    inside = git(folder, "rev-parse", "--is-inside-work-tree")
    if inside.returncode or inside.stdout.strip() != "true":
        return False
    return git(folder, "ls-files", "--error-unmatch", "--", str(name)).returncode == 1
