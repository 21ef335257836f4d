"""`manage.py prepare` in a cluster: the first one makes the keys and their Secret, every other takes those."""

import base64
import os
import subprocess
import sys

import pytest

from tests.support import CHECKOUT
from tests.support.product import Product

SECRETS = "/api/v1/namespaces/default/secrets"
NAMES = {"secret_key", "ring", "vapid", "log"}


@pytest.fixture
def prepare(kubernetes, tmp_path):
    """`prepare(home)`: run it with a home of its own and a Secret of the test's; return what the process was."""
    name = f"keys-{os.getpid()}"

    def run(home: str):
        environment = os.environ | {
            "HANDRAIL_HOME": str(tmp_path / home),
            "HANDRAIL_RUNTIME": str(tmp_path / f"{home}-run"),
            "KUBECONFIG": str(kubernetes.kubeconfig),
            "HANDRAIL_PARTS": "queue",  # nothing static is collected then
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        }
        environment.pop("DATABASE_URL", None)
        Product.prepared.into(tmp_path / home, environment)  # its database is migrated; its keys are still to be made
        command = [sys.executable, "manage.py", "prepare", "--keys-secret", name]
        return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)

    run.name = name
    run.keys = lambda home: {
        path.name: path.read_bytes() for path in (tmp_path / home / "keys").iterdir() if path.name in NAMES
    }
    yield run
    kubernetes.api.ask(f"{SECRETS}/{name}", method="DELETE")


def test_the_first_makes_the_secret_and_another_takes_its_keys(prepare, kubernetes):
    first = prepare("first")
    assert first.returncode == 0, first.stderr
    assert f"The keys are in the Secret {prepare.name}." in first.stdout
    kept = kubernetes.api.ask(f"{SECRETS}/{prepare.name}")[1]["data"]
    assert {name: base64.b64decode(key) for name, key in kept.items()} == prepare.keys("first")
    assert prepare.keys("first").keys() == NAMES

    second = prepare("second")
    assert second.returncode == 0, second.stderr
    assert "The keys are in" not in second.stdout
    assert prepare.keys("second") == prepare.keys("first")
