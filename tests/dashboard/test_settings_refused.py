"""A wrong setting stops every command with one sentence: the variable, what it may be, and what it was."""

import os
import re
import runpy
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.support import CHECKOUT

SETTINGS = CHECKOUT / "dashboard" / "settings.py"
# Any text may be a name, a secret or a claim of a provider.
ANY_TEXT = {
    "HANDRAIL_TOKEN", "HANDRAIL_HOST_NAME", "HANDRAIL_DOCKER_RUNTIME", "HANDRAIL_FAILPOINT",
    "HANDRAIL_OIDC_NAME", "HANDRAIL_OIDC_CLIENT_ID", "HANDRAIL_OIDC_CLIENT_SECRET", "HANDRAIL_OIDC_SCOPES",
    "HANDRAIL_OIDC_GROUPS_CLAIM", "HANDRAIL_OIDC_USERNAME_CLAIM", "HANDRAIL_OIDC_SECOND_FACTOR",
    "HANDRAIL_OIDC_BREAK_GLASS",
}  # fmt: skip
WRONG = ["banana split", "-1", "999999999999999999999"]
MORE = {
    "HANDRAIL_HOME": ["/dev/null/home"],
    "HANDRAIL_PORT": ["0", "70000", "8000.5", "²"],
    "HANDRAIL_PUBLIC_URL": ["https://desk.example:port", "ftp://desk.example", "desk.example"],
    "HANDRAIL_PREVIEW_HOST": ["handrail.localhost"],
    "HANDRAIL_BUCKET": ["https://bucket.example/x", "s3://", "s3://Bucket/x", "s3://bucket/a b"],
    "HANDRAIL_LANES": ["push,banana"],
    "HANDRAIL_SWEEP_HOUR": ["24"],
    "HANDRAIL_EGRESS_NETWORKS": ["10.0.0.0/99"],
    "HANDRAIL_NOTIFY_CONTACT": ["ops@example.org"],
    "HANDRAIL_OIDC_ROLES": ["staff=main:owner"],
    "HANDRAIL_OIDC_ISSUER": ["http://idp.example", "https://idp.example/?a=1"],
    "HANDRAIL_DEBUG": ["yes"],
    "HANDRAIL_HELD": ["true"],
    "DATABASE_URL": ["mysql://u:secret-word@h/d", "postgres", "oracle://u:secret-word@h/d"],
}
# What a text that is wrong elsewhere may be: a folder below the current one, for example.
ALSO_RIGHT = {"HANDRAIL_HOME": set(WRONG), "HANDRAIL_HOST": set(WRONG[1:]), "HANDRAIL_PREVIEW_HOST": set()}


def variables() -> list[str]:
    named = re.findall(r'\benv(?:_[a-z]+)?\(\s*"([A-Z_]+)"', SETTINGS.read_text())
    return sorted(set(named) - ANY_TEXT)


@pytest.mark.parametrize("name", variables())
def test_each_wrong_value_is_refused_in_one_sentence(name, monkeypatch, tmp_path):
    monkeypatch.setenv("HANDRAIL_HOME", str(tmp_path))
    right = ALSO_RIGHT.get(name, set())
    tried = [value for value in [*WRONG, *MORE.get(name, [])] if value not in right]
    if name in ("HANDRAIL_GIT_HOSTS", "HANDRAIL_PULL_FROM"):  # a number may be a host's name
        tried = ["banana split"]
    if name == "HANDRAIL_UPSTREAM_NO_PROXY":  # blanks part its rules, and a number may be a name
        tried = ["10.0.0.0/99", "a:b:c"]
    if name == "HANDRAIL_UPSTREAM_PROXY":  # the same
        tried = ["banana split", "http://me:secret-word@proxy.example/path"]
    if name == "DOCKER_HOST":
        monkeypatch.delenv("HANDRAIL_DOCKER_HOST", raising=False)
    assert tried
    for value in tried:
        monkeypatch.setenv(name, value)
        with pytest.raises(ImproperlyConfigured) as refused:
            runpy.run_path(str(SETTINGS))
        sentence = str(refused.value)
        assert re.fullmatch(rf"{name}.* (must be|can't be|needs) .+\.", sentence) or re.fullmatch(
            rf"{name} (must be|can't be|needs) .+\.", sentence
        ), sentence
        assert value in sentence or name in ("DATABASE_URL", "HANDRAIL_UPSTREAM_PROXY"), sentence
        assert "secret-word" not in sentence


@pytest.mark.parametrize("command", ["up", "check", "doctor", "help"])
def test_a_command_prints_the_sentence_and_no_traceback(command, tmp_path):
    environment = os.environ | {"HANDRAIL_HOME": str(tmp_path), "HANDRAIL_PORT": "banana"}
    done = subprocess.run(
        [sys.executable, "manage.py", command], cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "HANDRAIL_PORT must be a whole number of at least 1 and at most 65535, not 'banana'.\n"
