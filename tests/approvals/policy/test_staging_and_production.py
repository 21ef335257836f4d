"""200 calls of many programs, judged as the sentence means: writes to staging run, to production need two people."""

import json
from pathlib import Path

import pytest

from approvals.policy import classify, load_policy

HERE = Path(__file__).parent
CALLS = [json.loads(line) for line in (HERE / "staging_and_production.jsonl").read_text().splitlines()]
SENTENCE = (HERE / "staging_and_production.toml").read_text()
MEANS = {"low": "runs", "medium": "runs", "high": "asks", "critical": "two"}
WHO = {"agent": "mia", "environment": "shop", "labels": {}, "at": "2026-11-30T12:00:00+00:00"}


def names(call):
    return next(str(value) for value in call["input"].values())[:60]


def judged(call, text=SENTENCE, **context):
    return classify(call["tool"], call["input"], policy=load_policy(text), context=WHO | context).tier


def test_the_list_has_two_hundred_calls_of_all_programs():
    texts = [json.dumps(call["input"]) for call in CALLS]
    assert len(set(texts)) >= 200
    for program in ("kubectl", "helm", "terraform", "psql", "curl", "aws", "gcloud", "git push"):
        assert sum(program in text for text in texts) >= 4
    assert sum(call["tool"].startswith("mcp") for call in CALLS) >= 20


@pytest.mark.parametrize("call", CALLS, ids=names)
def test_a_call_is_judged_as_the_sentence_means(call):
    assert MEANS[judged(call)] == call["means"]


@pytest.mark.parametrize("call", [call for call in CALLS if call["means"] == "two"], ids=names)
def test_what_is_held_needs_two_people_for_production_all_the_same(call):
    assert judged(call, held=True) == "critical"


@pytest.mark.parametrize("call", [call for call in CALLS if call["means"] == "asks"], ids=names)
def test_what_is_no_target_is_judged_as_without_the_sentence(call):
    without = 'mode = "irreversible"\n'
    assert judged(call) == judged(call, without)
    assert judged(call, held=True) == judged(call, without, held=True)


def test_a_held_call_that_the_sentence_lets_run_leaves_the_envelope():
    command = {"command": "kubectl --context staging apply -f k8s/app.yaml"}
    verdict = classify("Bash", command, policy=load_policy(SENTENCE), context={"held": True})
    assert (verdict.tier, verdict.envelope) == ("low", None)
