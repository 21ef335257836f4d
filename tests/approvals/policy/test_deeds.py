"""Headlines of tool calls say the deed, and nothing that a call's author could use to deceive or that may be secret."""

import pytest

from approvals.policy import Policy, classify
from approvals.policy.deeds import deed, loses_data, moves_money


@pytest.mark.parametrize(
    ("server", "tool", "given", "says"),
    [
        (
            "stripe",
            "create_refund",
            {"charge": "ch_3PqL9", "amount": 129900, "currency": "eur"},
            "Refund 1,299.00 EUR on ch_3PqL9 (stripe)",
        ),
        (
            "stripe",
            "create_refund",
            {"charge": "ch_1", "amount": 500, "currency": "JPY"},
            "Refund 500 JPY on ch_1 (stripe)",
        ),
        (
            "stripe",
            "create_refund",
            {"payment_intent": "pi_1", "amount": 500},
            "Refund 500 (in the currency's smallest unit) on pi_1 (stripe)",
        ),
        ("bank", "transfer", {"amount": "12.5", "currency": "USD", "to": "ACME"}, "Transfer 12.50 USD to ACME (bank)"),
        ("github", "create_issue", {"owner": "acme", "repo": "shop"}, "Create an issue in acme/shop (github)"),
        (
            "github",
            "update_issue",
            {"issue_number": 42, "repo": "acme/shop", "title": "New words"},
            'Change issue 42 "New words" in acme/shop (github)',
        ),
        ("slack", "post_message", {"channel": "#ops", "text": "x" * 500}, "Post a message to #ops (slack)"),
        ("pg", "query", {"sql": "DELETE FROM orders"}, "Delete all rows in orders (pg)"),
        ("pg", "query", {"sql": "select 1; drop table a.b"}, "Drop table a.b and 1 more statement (pg)"),
        ("pg", "query", {"sql": "delete from orders -- where id = 3"}, "Delete all rows in orders (pg)"),
        ("maps", "reverse-geocode", {"lat": 1.5, "lon": 2}, "reverse-geocode: lat 1.5, lon 2 (maps)"),
        ("", "LaunchRocket", {"site": "B4", "deep": {"a": 1}}, "LaunchRocket: site B4, a 1"),
    ],
)
def test_the_deed_is_made_from_the_name_and_short_arguments(server, tool, given, says):
    assert deed(server, tool, given) == says


@pytest.mark.parametrize(
    "value",
    [
        'x" in acme/shop',
        "a\nb",
        "a  b",
        "x (verified)",
        "sk_live_4eC39HqLyjWDarjtT1",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "z" * 61,
    ],
)
def test_a_value_that_is_not_plain_or_may_be_secret_stays_out(value):
    assert deed("github", "create_issue", {"title": value}) == "Create an issue (github)"


def test_an_argument_with_a_secret_name_stays_out():
    assert deed("x", "login", {"password": "hunter2", "api_key": "abc", "user": "mia"}) == "login: user mia (x)"


@pytest.mark.parametrize(
    ("tool", "money"),
    [
        ("create_refund", True),
        ("refund", True),
        ("list_refunds", False),
        ("get_payment", False),
        ("create_issue", False),
    ],
)
def test_reading_about_money_does_not_move_it(tool, money):
    assert moves_money(tool) is money


def test_a_tool_that_deletes_and_a_statement_that_changes_lose_data():
    assert loses_data("delete_bucket", {})
    assert loses_data("query", {"sql": "update a set b = 1 where c = 2"})
    assert not loses_data("query", {"sql": "select * from a"})
    assert not loses_data("create_issue", {"query": 7})


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ('psql -c "DELETE FROM orders WHERE id = 3"', "Delete rows in orders (psql)"),
        ("psql -h db.example.com --command='truncate orders'", "Empty table orders (psql on db.example.com)"),
        ('mysql -e "drop table users"', "Drop table users (mysql)"),
        ('psql -c "DELETE FROM orders WHERE id = $ID"', "Delete rows in orders (psql)"),
        ('psql -c "DELETE FROM a WHERE b = 1" -f more.sql', "Delete rows in a, run the statements in more.sql (psql)"),
    ],
)
def test_a_database_shell_says_what_its_statements_do(command, title):
    assert classify("Bash", {"command": command}, policy=Policy()).title == title


@pytest.mark.parametrize(
    ("server", "tool", "given", "title"),
    [
        ("srv", "get_rid_of_all_data", {}, "get_rid_of_all_data (srv)"),
        ("srv", "read_and_delete_repo", {"repo": "shop"}, "read_and_delete_repo: repo shop (srv)"),
        ("srv", "list_transfer_money", {}, "list_transfer_money (srv)"),
        ("srv", "add_user_then_wipe", {}, "add_user_then_wipe (srv)"),
        ("srv", "searchAndDestroy", {}, "searchAndDestroy (srv)"),
        ("github", "get_issue", {"owner": "a", "repo": "b", "issue_number": 4}, "Read issue 4 in a/b (github)"),
        ("bank", "transfer", {"amount_eur": 4200.5, "iban": "DE89370400440532013000"},
         "Transfer 4,200.50 EUR to DE89370400440532013000 (bank)"),
        ("shop", "refund_order", {"order_id": "ORD-1", "amount": {"value": "49.90", "currency": "EUR"}},
         "Refund 49.90 EUR on ORD-1 (shop)"),
        ("x", "charge_card", {"amount_cents": 500, "currency": "usd"}, "Charge 5.00 USD (x)"),
        ("pay", "wire", {"total": {"amount": 5, "currency": "CHF"}, "beneficiary": "شركة"},
         "wire: 5 CHF (unit unclear), beneficiary شركة (pay)"),
        ("slack", "post_message", {"channel": "#général"}, "Post a message to #général (slack)"),
        ("slack", "post_message", {"channel": "#תמיכה"}, "Post a message to #תמיכה (slack)"),
        ("linear", "create_issue", {"title": "ログイン画面"}, 'Create an issue "ログイン画面" (linear)'),
        ("mail", "send", {"to": ["Jürgen@x.example", "b@x.example"]}, "Send to Jürgen@x.example and 1 more (mail)"),
        ("slack", "post_message", {"channel": "#a\u202eb"}, "Post a message to #a⟨U+202E⟩b (slack)"),
        ("github", "create_issue", {"title": "\u0430cme"}, 'Create an issue "⟨U+0430⟩cme" (github)'),
        ("warehouse", "load", {"table": "events", "rows": [{"id": 1}] * 600}, "Load 600 rows into events (warehouse)"),
        ("crm", "kontakt_ändern", {"empfänger": "Jürgen"}, "kontakt_ändern: recipient Jürgen (crm)"),
    ],
)  # fmt: skip
def test_a_headline_names_the_object_in_any_script_and_never_softens_a_tool(server, tool, given, title):
    assert deed(server, tool, given) == title
