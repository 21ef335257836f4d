"""The published corpus of display attacks, against our own card."""

import json
import re

import pytest

from handrail_card_corpus.__main__ import CASES, main

TEAM = "corpus"


@pytest.fixture(scope="module")
def result(product, module_monkeypatch, capture):
    """(exit status, {name: line}) of a run against the product."""
    module_monkeypatch.setenv("HANDRAIL_TOKEN", product.agent_token("corpus-agent", TEAM))
    sign_in = product.sign_in_url("cora", "reviewer", TEAM)
    status, text = capture(["--url", product.desk, "--api", product.url, "--sign-in", sign_in])
    lines = (re.match(r"(passed|FAILED)  (.+?)(?:: |$)", line) for line in text.splitlines())
    return status, {found[2]: found[0] for found in lines if found}


@pytest.fixture(scope="module")
def module_monkeypatch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def capture():
    from contextlib import redirect_stdout
    from io import StringIO

    def run(arguments):
        printed = StringIO()
        with redirect_stdout(printed):
            status = main(arguments)
        return status, printed.getvalue()

    return run


def test_each_case_shows_what_it_must(result):
    status, lines = result
    assert [line for line in lines.values() if not line.startswith("passed")] == []
    assert (status, set(lines)) == (0, {case["name"] for case in json.loads(CASES.read_text())["cases"]})
    assert len(lines) >= 60
