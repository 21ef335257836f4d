"""The attested card, profile 1: the values of a call, and what is wrong with a statement about them."""

import hashlib
import json

import pytest

from handrail_verify import canonical, card

CALL = canonical.dumps(
    {"tool": "t", "arguments": {"a": "x", "n": [1, 2.5, True, None, [], {}], "d": {"k": {"e": "\u200b"}}}, "cwd": None}
)


def statement(**changes):
    values = card.values_of(CALL)
    right = {"profile": 1, "call": hashlib.sha256(CALL).hexdigest(), "values": card.hash_of(values), "without": []}
    return right | {"count": len(values), "read": len(values)} | changes


def test_the_values_of_a_call_are_its_leaves_with_their_digits():
    assert card.values_of(CALL) == ["x", "\u200b", "1", "2.5", "true", "null", "[]", "{}"]
    exact = b'{"arguments": {"n": 1e21, "m": 100000000000000000000000, "s": 0.10}}'
    assert card.values_of(exact) == ["1e21", "100000000000000000000000", "0.10"]
    assert card.values_of(CALL, without=["n", "d"]) == ["x"]


def test_their_order_does_not_matter_and_their_number_does():
    assert card.hash_of(["a", "b"]) == card.hash_of(["b", "a"])
    assert card.hash_of(["a"]) != card.hash_of(["a", "a"]) != card.hash_of(["aa"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"call": "0" * 64}, ["The page showed another call."]),
        ({"values": "0" * 64}, ["The page did not show exactly the values of the call."]),
        ({"count": 9, "read": 9}, ["The page did not show exactly the values of the call."]),
        ({"without": ["a"]}, ["The page did not show exactly the values of the call."]),
        ({"read": 5}, ["3 of 8 values were never in view."]),
    ],
)
def test_what_a_statement_lacks_is_said(changes, words):
    assert card.faults(statement(**changes), CALL) == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"profile": 1}',
        json.dumps(statement(profile=2)),
        json.dumps(statement(read=9)),
        json.dumps(statement(count=-1, read=-1)),
        json.dumps(statement(call="x")),
        json.dumps(statement(without="a")),
        json.dumps(statement(without=["x"] * 21)),
        json.dumps(statement(more=1)),
        json.dumps(statement())[:-1] + ', "read": 8}',
        json.dumps(statement(without=["x" * 4000])),
    ],
)
def test_anything_else_is_no_statement(text):
    assert card.read(text) is None


def test_a_statement_is_read_as_it_was_sent():
    assert card.read(json.dumps(statement())) == statement()
