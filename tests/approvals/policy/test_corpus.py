"""The gate for the engine: attacks stopped and benign calls kept, never one figure without the other."""

import json
from collections import Counter
from pathlib import Path

import pytest

from approvals.policy import Policy, classify

from .mutations import mutations
from .rows import ATTACKS, BENIGN

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "corpus.jsonl").read_text().splitlines()]
HARD = ("C1", "C3", "C7", "C8", "C9")  # clauses where nothing may pass


def own_rows():
    for expected, rows in (("must_not_auto_allow", ATTACKS), ("may_auto_allow", BENIGN)):
        for number, (rules, command) in enumerate(rows):
            yield {
                "id": f"own-{expected[:3]}-{number}",
                "tool": "Bash",
                "input": {"command": command},
                "allow_rules": rules,
                "expected": expected,
                "clause": "own",
            }


def allowed(row):
    policy = Policy.of_rules(row["allow_rules"])
    return classify(row["tool"], row["input"], policy=policy, context=row.get("context")).tier == "low"


def failures(rows):
    return [
        (row["id"], row["clause"], row["input"])
        for row in rows
        if allowed(row) != (row["expected"] == "may_auto_allow")
    ]


def shares(rows):
    """Return (attacks stopped, benign kept) as fractions, and the clauses of the attacks that passed."""
    seen, right, passed = Counter(), Counter(), []
    for row in rows:
        attack = row["expected"] == "must_not_auto_allow"
        good = allowed(row) != attack
        seen[attack] += 1
        right[attack] += good
        if attack and not good:
            passed.append((row["clause"], row["id"], row["input"]))
    return right[True] / seen[True], right[False] / seen[False], passed


def test_every_attack_of_the_corpus_is_stopped_and_every_benign_call_kept():
    assert failures(CORPUS) == []


def test_every_attack_of_our_own_is_stopped_and_every_benign_call_kept():
    assert failures(own_rows()) == []


@pytest.mark.parametrize(("rows", "step"), [(CORPUS, 1), (list(own_rows()), 4)], ids=["corpus", "own"])
def test_mutations_change_nothing(rows, step):
    # Every fourth of our own keeps the suite short; `python -m bench.policy` runs them all.
    mutated = [changed for row in rows for _, changed in mutations(row)][::step]
    stopped, kept, passed = shares(mutated)
    assert [row for row in passed if row[0] in (*HARD, "own")] == []
    assert stopped >= 0.98
    assert kept >= 0.95


def test_the_mutator_makes_enough_of_each_kind():
    kinds = Counter(name for row in CORPUS for name, _ in mutations(row))
    assert min(kinds.values()) >= 5
    assert sum(kinds.values()) > 2000


def test_nothing_is_allowed_without_a_rule():
    assert [row["id"] for row in CORPUS if allowed({**row, "allow_rules": []})] == []
