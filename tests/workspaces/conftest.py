"""Workspaces are tested from outside: the whole product, an agent's token, real bubblewrap and real git."""

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="session")
def token(product):
    return product.agent_token("workspace-tests")


@pytest.fixture(scope="session")
def lead_token(product):
    return product.person_token("lead-of-workspaces", "lead")


@pytest.fixture(scope="session")
def desk(product, token):
    return Desk(product, token)


@pytest.fixture
def repository(product):
    """A small git repository of this test, with two branches under the allowed folder; its path and the two commits."""
    path = Path(tempfile.mkdtemp(prefix="calc-", dir=product.sources))

    def git(*args):
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        return subprocess.run(
            ["git", *identity, *args], cwd=path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q", "-b", "main")
    (path / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    git("add", ".")
    git("commit", "-qm", "add")
    first = git("rev-parse", "HEAD")
    git("checkout", "-qb", "feature")
    (path / "calc.py").write_text("def add(a, b):\n    return b + a\n")
    git("commit", "-qam", "swap")
    second = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    return path, first, second
