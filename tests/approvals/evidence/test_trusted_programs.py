"""A program that a policy trusts runs as long as its file has the digest that the policy names."""

import hashlib
import html
import re
import shlex

import pytest

from tests.support.visitor import Visitor

TOOL = "#!/bin/sh\necho checked\n"
DIGEST = hashlib.sha256(TOOL.encode()).hexdigest()
PROGRAM = '{{name = "{name}", path = "{path}", sha256 = "' + DIGEST + '"}}'
TRUST = f"""
[trust]
programs = [
    {PROGRAM.format(name="tool.sh", path="/workspace/tool.sh")},
    {PROGRAM.format(name="owntool", path="/home/agent/.local/bin/owntool")},
]
"""


@pytest.fixture
def trusting(product):
    """The team's policy trusts the two programs; the policy before it is put back at the end."""
    lead = Visitor.named(product, "policy-lead", "lead")
    lead.get("/policy/edit/")
    number, before = _shown(lead)
    lead.post("/policy/edit/", {"text": before + TRUST, "base": number})
    assert "owntool" in _shown(lead)[1]
    yield
    number, _ = _shown(lead)
    lead.post("/policy/edit/", {"text": before, "base": number})


def _shown(lead):
    page = lead.get("/policy/edit/")
    base = re.search(r'name="base" value="(\d+)"', page)[1]
    return base, html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)[1])


def test_a_trusted_program_runs_until_its_file_changes(trusting, desk, ask):
    key = desk.create()["key"]
    desk.run(key, f"printf %s {shlex.quote(TOOL)} > tool.sh; chmod +x tool.sh")
    assert [ask(key, c)["status"] for c in ("./tool.sh", "bash ./tool.sh", "./other.sh")] == [
        "approved", "approved", "pending",
    ]  # fmt: skip
    desk.run(key, "echo evil >> tool.sh")
    assert [ask(key, c)["status"] for c in ("./tool.sh", "bash ./tool.sh")] == ["pending", "pending"]


def test_a_program_on_the_path_is_trusted_where_the_policy_names_its_file(trusting, desk, ask):
    key = desk.create()["key"]
    assert ask(key, "owntool --all")["status"] == "pending"
    own = "~/.local/bin/owntool"
    desk.run(key, f"mkdir -p ~/.local/bin && printf %s {shlex.quote(TOOL)} > {own} && chmod +x {own}")
    assert ask(key, "owntool --all")["status"] == "approved"
    assert ask(key, "owntool && git push")["status"] == "pending"
