"""Several alike calls have one title; calls of two kinds have none."""

import pytest

from approvals.policy.plural_titles import kind_of_call, plural_phrase, plural_title

REFUND = {"payment_intent": "pi_1", "amount": 500}


@pytest.mark.parametrize(
    ("tool", "each", "number", "title"),
    [
        ("mcp__crm__update_contact", {"id": 7, "email": "mia@shop.example"}, 50, "50 contact changes (crm)"),
        ("mcp__stripe__create_refund", REFUND, 3, "3 refunds (stripe)"),
        ("mcp__github__create_issue", {"owner": "acme", "repo": "shop", "title": "x"}, 4, "4 new issues (github)"),
        ("mcp__pg__query", {"sql": "DROP TABLE users"}, 4, "4 × Drop table users (pg)"),
        ("mcp__mail__send", {"to": "mia@shop.example"}, 3, "3 × Send (mail)"),
        ("mcp__x__frobnicate", {"a": 1}, 1200, "1,200 × frobnicate (x)"),
        ("Edit", {"file_path": "a.py"}, 3, "3 file changes"),
        ("mcp", {"server": "crm", "tool": "update_contact", "arguments": {"id": 7}}, 3, "3 contact changes (crm)"),
    ],
)
def test_alike_calls_have_one_title(tool, each, number, title):
    assert plural_title([(tool, each)] * number) == title


@pytest.mark.parametrize(
    "calls",
    [
        [("mcp__pg__query", {"sql": "DROP TABLE users"}), ("mcp__pg__query", {"sql": "SELECT * FROM users"})],
        [
            ("mcp__shop__refund", {"amount": 5, "currency": "EUR"}),
            ("mcp__shop__refund", {"amount": 5, "currency": "JPY"}),
        ],
        [("mcp__a__update_contact", {"id": 1}), ("mcp__b__update_contact", {"id": 1})],
        [("Bash", {"command": "git push"})] * 3,
        [("mcp__crm__update_contact", {"id": 1})],
    ],
)
def test_calls_of_two_kinds_shell_commands_and_a_single_call_have_none(calls):
    assert plural_title(calls) == ""


def test_a_name_that_hides_a_verb_is_said_as_it_is():
    assert plural_title([("mcp__srv__get_rid_of_all_data", {})] * 2) == "2 × get_rid_of_all_data (srv)"


def test_a_kind_holds_verb_thing_statement_and_currency():
    call = ("mcp__shop__refund_order", {"amount": {"value": "4.99", "currency": "EUR"}})
    assert kind_of_call(*call) == ("shop", "refund", "", "", "EUR")
    assert kind_of_call("mcp__pg__query", {"sql": "DROP TABLE users"})[3] == "Drop table users"


def test_each_template_goes_through_the_translation():
    words = {"{number} new {things}": "{number} neue {things}", "{title} ({server})": "{title}, {server}"}
    said = plural_phrase([("mcp__github__create_issue", {"title": "x"})] * 2)
    assert said.said(lambda text: words.get(text, text)) == "2 neue issues, github"
