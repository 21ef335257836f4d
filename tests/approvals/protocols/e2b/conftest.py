"""E2B's SDKs as programs of their own, against a running desk."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import CHECKOUT

HERE = Path(__file__).parent
FRAMEWORKS = CHECKOUT / ".venv-frameworks"


def command_of(language: str, require) -> list[str]:
    """Return how the steps of one language are started: `deploy/frameworks.sh` installs its SDK."""
    if language == "python":
        python = os.environ.get("HANDRAIL_TEST_FRAMEWORKS") or str(FRAMEWORKS / "bin" / "python")
        if not Path(python).exists():
            require("frameworks", "there is no .venv-frameworks; `deploy/frameworks.sh` makes it")
        return [python, str(HERE / "steps.py")]
    modules = Path(os.environ.get("HANDRAIL_TEST_E2B") or FRAMEWORKS / "node_modules")
    if not (modules / "e2b").exists() or not shutil.which("node"):
        require("frameworks", "E2B's JavaScript SDK is not there; `deploy/frameworks.sh` installs it")
    return ["node", str(HERE / "steps.cjs"), str(modules)]


@pytest.fixture(scope="session", params=["python", "javascript"])
def sdk(request, require):
    """`sdk(product, token, "files")`: one step by one of the two SDKs; what it printed."""
    command = command_of(request.param, require)

    def step(product, token: str, *words: str):
        addresses = {"E2B_API_URL": f"{product.url}/e2b", "E2B_SANDBOX_URL": f"{product.url}/e2b/envd"}
        return seen_by([*command, *words], {"E2B_API_KEY": token} | addresses, product)

    return step


@pytest.fixture(scope="session", params=["python", "javascript"])
def sdk_by_name(request, require):
    """`sdk_by_name(product, token, names, port, "files")`: a step by an SDK that is told a domain and a key alone."""
    command = command_of(request.param, require)

    def step(product, token: str, names, port: int, *words: str):
        told = {"E2B_API_KEY": token, "E2B_DOMAIN": f"{names.domain}:{port}"}
        return seen_by(names.shown_to([*command, *words]), told | names.environment, product)

    return step


def seen_by(command: list[str], variables: dict, product):
    """Run steps with these variables and none of our own or of E2B's besides; return what they printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAIL_", "E2B_"))}
    ended = subprocess.run(command, env=kept | variables, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, (ended.stdout[-2000:], ended.stderr[-6000:], product.log[-3000:])
    return json.loads(ended.stdout.splitlines()[-1])
