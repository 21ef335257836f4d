"""Headlines of tool calls: the deed, made from the tool's name and a few of its arguments."""

import re

from .programs.sql_titles import changes_data, sql_title

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
# A value in a headline: plain characters that can neither end a quoted part nor hide or reorder anything.
PLAIN = re.compile(r"[A-Za-z0-9#@~/_][A-Za-z0-9_ .,@/#+:~*-]{0,59}")
# Arguments and values that may be secrets: headlines go to the log, from which nothing can be removed.
SECRET_NAME = re.compile(r"(?i)token|secret|passw|api_?key|auth|credential|cookie|session|signature|bearer")
SECRET_VALUE = re.compile(r"(?i)^(?:sk|rk|pk|whsec|gh[oprsu]|github_pat|xox[a-z]|akia|eyj|glpat|ya29)[-_.A-Za-z0-9]{8}")
SECRET_LENGTH = 40  # characters of one word from which it may be a key

VERBS = {
    "create": "Create", "add": "Add", "new": "Create", "insert": "Add", "make": "Create", "open": "Open",
    "update": "Change", "edit": "Edit", "modify": "Change", "set": "Set", "rename": "Rename", "move": "Move",
    "delete": "Delete", "remove": "Delete", "drop": "Drop", "destroy": "Destroy", "purge": "Purge",
    "send": "Send", "post": "Post", "publish": "Publish", "reply": "Reply to", "comment": "Comment on",
    "share": "Share", "archive": "Archive", "merge": "Merge", "close": "Close", "reopen": "Reopen",
    "approve": "Approve", "cancel": "Cancel", "assign": "Assign", "deploy": "Deploy", "rollback": "Roll back",
    "restart": "Restart", "stop": "Stop", "start": "Start", "run": "Run", "execute": "Run",
    "trigger": "Trigger", "invite": "Invite", "upload": "Upload", "download": "Download", "get": "Read",
    "read": "Read", "fetch": "Read", "list": "List", "search": "Search", "find": "Find", "query": "Query",
    "refund": "Refund", "charge": "Charge", "pay": "Pay", "transfer": "Transfer", "push": "Push",
    "fork": "Fork",
}  # fmt: skip
MADE = ("Create", "Add", "Open", "Send", "Post", "Publish")  # verbs whose object does not exist before: "an issue"
MONEY = {"refund": "Refund", "charge": "Charge", "payment": "Pay", "payout": "Pay out", "transfer": "Transfer"}
MONEY |= {"pay": "Pay"}
LOSING = ("delete", "remove", "drop", "destroy", "purge", "truncate", "wipe")
# Servers whose amounts count the smallest unit of the currency, and currencies without a smaller unit.
SMALLEST_UNIT = ("stripe",)
WHOLE_UNITS = ("BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF")
THOUSANDTHS = ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
NUMBERS = ("issue_number", "pull_number", "pullNumber", "pull_request_number", "number", "id")
LABELS = ("title", "name", "subject", "summary")
PLACES = ("repository", "project", "database", "table", "collection", "bucket", "dataset", "namespace", "environment")
RECEIVERS = ("to", "channel", "channel_id", "recipient", "email", "destination", "customer")
ON = ("charge", "payment_intent", "invoice", "subscription", "account", "order", "order_id")
STATEMENT_KEYS = ("sql", "query", "statement")
FALLBACK_VALUES = 3
MAX_DEED = 140


def deed(server, tool, given):
    """Return the headline of a call: "Create an issue in acme/shop (github)". The names are checked to be plain."""
    by = f" ({server})" if server else ""
    statement = next((given[key] for key in STATEMENT_KEYS if isinstance(given.get(key), str)), "")
    if said := sql_title(statement):
        return f"{said}{by}"
    words = _words(tool)
    values = {key: text for key, value in given.items() if (text := _plain(key, value))}
    said = _money(words, server, given, values) or _known(words, values) or _unknown(words, values)
    return f"{said[:MAX_DEED]}{by}"


def moves_money(tool):
    """Return whether the tool's name says that it moves money, and not only reads about it."""
    words = _words(tool)
    return bool(words) and VERBS.get(words[0]) not in ("Read", "List", "Search", "Find") and bool(_noun(words))


def loses_data(tool, given):
    """Return whether the tool's name, or the statement in its arguments, says that it deletes or changes data."""
    statements = (given.get(key) for key in STATEMENT_KEYS)
    return any(word in LOSING for word in _words(tool)[:2]) or any(changes_data(text) for text in statements if text)


def _words(tool):
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", tool[:60])
    return [word.lower() for word in re.split(r"[\s_.-]+", spaced) if word]


def _plain(key, value):
    """Return a value as it may stand in a headline; "" if it may be a secret, or is long or not plain."""
    if isinstance(value, bool) or SECRET_NAME.search(key) or not NAME.fullmatch(key):
        return ""
    if isinstance(value, int | float):
        return f"{value}" if len(f"{value}") <= 20 else ""
    if not isinstance(value, str) or not PLAIN.fullmatch(value) or "  " in value or value != value.strip():
        return ""
    secret = SECRET_VALUE.match(value) or any(len(word) >= SECRET_LENGTH for word in re.split(r"[ /]", value))
    return "" if secret else value


def _noun(words):
    return next((word.rstrip("s") for word in words[:3] if word.rstrip("s") in MONEY), "")


def _money(words, server, given, values):
    noun = _noun(words)
    if not noun or VERBS.get(words[0]) in ("Read", "List", "Search", "Find", "Delete", "Cancel"):
        return ""
    said = MONEY[noun]
    if amount := _amount(server, given):
        said += f" {amount}"
    elif noun == "payment":
        said = "Make a payment"
    return said + _first(values, ON, " on ") + _first(values, RECEIVERS, " to ") + _place(values)


def _amount(server, given):
    """Return an amount with its currency: "1,299.00 EUR"; "" if there is none."""
    amount, currency = given.get("amount"), given.get("currency")
    if isinstance(amount, str) and re.fullmatch(r"\d{1,12}(?:\.\d{1,4})?", amount):
        amount = float(amount) if "." in amount else int(amount)
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 10**12:
        return ""
    known = isinstance(currency, str) and re.fullmatch(r"[A-Za-z]{3}", currency)
    code = currency.upper() if known else ""
    if server not in SMALLEST_UNIT:
        digits = f"{amount:,}" if isinstance(amount, int) else f"{amount:,.2f}"
        return f"{digits} {code}".strip()
    if not code or not isinstance(amount, int):
        return f"{amount:,} (in the currency's smallest unit)"
    places = 0 if code in WHOLE_UNITS else 3 if code in THOUSANDTHS else 2
    return f"{amount / 10**places:,.{places}f} {code}"


def _known(words, values):
    verb = VERBS.get(words[0]) if words else None
    if verb is None:
        return ""
    thing = " ".join(words[1:])
    number, label = _first(values, NUMBERS, " "), _first(values, LABELS, ' "')
    if verb in MADE and thing and not thing.endswith("s"):
        thing = f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}"
    said = f"{verb} {thing}".strip() + ("" if verb in MADE else number) + (f'{label}"' if label else "")
    return said + _place(values) + _first(values, RECEIVERS, " to ") + _first(values, ON, " on ")


def _place(values):
    if values.get("owner") and values.get("repo"):
        return f" in {values['owner']}/{values['repo']}"
    return _first(values, ("repo", *PLACES), " in ")


def _first(values, keys, before):
    return next((f"{before}{values[key]}" for key in keys if values.get(key)), "")


def _unknown(words, values):
    """Return the tool's name and its first short values, for a name that begins with no known verb."""
    said = " ".join(words)
    shown = [f"{key} {value}" for key, value in list(values.items())[:FALLBACK_VALUES]]
    return f"Use {said}" + (f": {', '.join(shown)}" if shown else "")
