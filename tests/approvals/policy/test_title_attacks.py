"""Titles of calls whose arguments are made to mislead: exact digits, marked letters, and nothing that ends a part."""

import json
import re
import unicodedata
from pathlib import Path

import pytest

from approvals.policy import classify, default_policy, load_policy

POLICY = load_policy(default_policy())
ATTACKS = [json.loads(line) for line in Path(__file__).with_name("title_attacks.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["why"] for attack in ATTACKS])
def test_a_title_never_misleads(attack):
    verdict = classify(attack["tool"], attack["input"], policy=POLICY)
    assert verdict.title == attack["title"]
    assert verdict.tier == "high"
    server = attack["tool"].split("__")[1]
    assert re.fullmatch(r"[^()]*(?:\([^()]*\)[^()]*)*", verdict.title), "brackets are the title's own"
    assert verdict.title.endswith(f" ({server})")
    assert verdict.title.count('"') % 2 == 0
    assert not [char for char in verdict.title if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")]


def test_there_are_sixty():
    assert len(ATTACKS) >= 60
