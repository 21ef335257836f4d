"""Headlines of tool calls: the deed, made from the tool's name and a few of its arguments."""

import re
import unicodedata
from decimal import Decimal

from .hidden_characters import hidden_in
from .programs.sql_titles import changes_data, sql_title

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
# Signs of a value in a headline beside letters, marks and digits of any script: none can end a quoted part.
SIGNS = frozenset(" .,@/#+:~*-_'’–—…!?&%=€$£¥·・、。：！？「」『』【】ー⟨⟩")
MIXED = ("LATIN", "CYRILLIC", "GREEK")  # whose letters look alike, so that a word has those of one only
MAX_VALUE = 60
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
# Further words of tools that move money, under their own names in a headline.
MOVING = (
    "wire",
    "withdraw",
    "withdrawal",
    "deposit",
    "disburse",
    "disbursement",
    "remit",
    "donate",
    "payroll",
    "settle",
)
MOVING += ("credit", "debit", "topup", "buy", "sell", "purchase", "trade", "swap", "invest", "cashout")
LOSING = ("delete", "remove", "drop", "destroy", "purge", "truncate", "wipe")
# Servers whose amounts count the smallest unit of the currency, and currencies without a smaller unit.
SMALLEST_UNIT = ("stripe",)
WHOLE_UNITS = ("BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF")
THOUSANDTHS = ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
NUMBERS = ("issue_number", "pull_number", "pullNumber", "pull_request_number", "number", "id")
LABELS = ("title", "name", "subject", "summary")
PLACES = ("repository", "project", "database", "table", "collection", "bucket", "dataset", "namespace", "environment")
RECEIVERS = (
    "to",
    "recipient",
    "recipients",
    "channel",
    "channel_id",
    "channel_name",
    "email",
    "to_email",
    "destination",
)
RECEIVERS += ("beneficiary", "payee", "creditor", "recipient_name", "customer", "phone", "to_user", "user", "assignee")
ACCOUNTS = ("iban", "to_iban", "account_number", "to_account", "destination_account", "wallet", "address")
READING = ("Read", "List", "Search", "Find", "Query")
# Servers whose reading tools are known to read. Elsewhere the first word of a name says nothing: `get_rid_of_all_data`.
KNOWN_SERVERS = ("github", "gitlab", "linear", "slack", "jira", "atlassian", "confluence", "notion", "sentry", "stripe")
KNOWN_SERVERS += ("figma", "asana", "trello", "postgres", "google_drive", "gmail", "playwright", "context7")
JOINING = ("and", "or", "then", "of", "rid", "all", "everything", "with", "before", "after")
AMOUNT = re.compile(
    r"(?:(?:total|refund|payment|transfer|charge|unit)_?)?(amount|sum|price|cents|value)(?:_?(?:in)?_?(cents|minor|minor_units"
    r"|[a-z]{3}))?|(total)",
    re.IGNORECASE,
)
CURRENCIES = ("currency", "currency_code", "currencyCode", "ccy")
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
    words = _words_of_name(tool)
    values = {key: text for key, value in given.items() if (text := _plain(key, value))}
    said = _money(words, server, given, values) or _known(words, server, values) or _unknown(tool, values)
    amount = _amount(server, given)
    if amount and amount not in said and not _names_amount(said, values):
        said += f", {amount}"
    return f"{said[:MAX_DEED]}{by}"


def _names_amount(said, values):
    return any(f"{key} {text}" in said for key, text in values.items() if AMOUNT.fullmatch(key))


def moves_money(tool):
    """Return whether the tool's name says that it moves money, and not only reads about it."""
    words = _words_of_name(tool)
    moves = bool(_noun(words)) or bool(set(words[:3]) & set(MOVING))
    return bool(words) and VERBS.get(words[0]) not in ("Read", "List", "Search", "Find") and moves


def loses_data(tool, given):
    """Return whether the tool's name, or the statement in its arguments, says that it deletes or changes data."""
    statements = (given.get(key) for key in STATEMENT_KEYS)
    return any(word in LOSING for word in _words_of_name(tool)[:2]) or any(
        changes_data(text) for text in statements if text
    )


def _words_of_name(tool):
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", tool[:60])
    return [word.lower() for word in re.split(r"[\s_.-]+", spaced) if word]


def _plain(key, value):
    """Return a value as it may stand in a headline; "" if it may be a secret, or is long or not plain."""
    if isinstance(value, bool) or SECRET_NAME.search(key) or not NAME.fullmatch(key):
        return ""
    if isinstance(value, int | float):
        return f"{value}" if len(f"{value}") <= 20 else ""
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        first = _plain(key, value[0])
        return f"{first} and {len(value) - 1} more" if first and len(value) > 1 else first
    if not isinstance(value, str):
        return ""
    value = _marked(value[:1000])
    if not _is_plain(value):
        return ""
    if len(value) > MAX_VALUE:
        return _plain(key, value[: MAX_VALUE - 1].rstrip() + "…")
    secret = SECRET_VALUE.match(value) or any(len(word) >= SECRET_LENGTH for word in re.split(r"[ /]", value))
    return "" if secret else value


def _marked(value):
    """Return a value with each hidden character named in its place."""
    if not hidden_in(value):
        return value
    return "".join(f"⟨{found}⟩" if (found := hidden_in(char)) else char for char in value)


def _is_plain(value):
    """Return True for text of letters, digits and a few signs, in any script, and nothing that hides or reorders."""
    if not value or value != value.strip() or "  " in value or any(map(_mixes, value.split())):
        return False
    starts = value[0] in "#@~/_「『【" or unicodedata.category(value[0])[0] in "LN"
    return starts and all(char in SIGNS or unicodedata.category(char)[0] in "LMN" for char in value)


def _mixes(word):
    """Return True for a word with letters of two scripts that look alike."""
    found = {unicodedata.name(char, "").split(" ")[0] for char in word if char.isalpha()}
    return len(found & set(MIXED)) > 1


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
    to = _first(values, RECEIVERS, " to ")
    account = _first(values, ACCOUNTS, f", {'account ' if to else 'to '}" if said else "")
    return said + _first(values, ON, " on ") + to + account.replace(", to ", " to ") + _place(values)


def amount_of(tool, given):
    """Return the amount and currency that a call of an MCP tool names: "1,299.00 EUR"; "" if there is none."""
    if tool == "mcp":
        server, given = given.get("server"), given.get("arguments")
    else:
        server = tool.split("__")[1] if tool.startswith("mcp__") and tool.count("__") > 1 else ""
    return _amount(server, given) if isinstance(server, str) and isinstance(given, dict) else ""


def _amount(server, given):
    """Return an amount with its currency: "1,299.00 EUR"; "" if there is none."""
    for key, value in given.items():
        match = AMOUNT.fullmatch(key)
        if not match or ((match[1] or "").lower() == "value" and not set(CURRENCIES) & set(given)):
            continue
        unit = (match[2] or match[1] or "").lower()
        code = next((given[name] for name in CURRENCIES if isinstance(given.get(name), str)), "")
        if isinstance(value, dict):
            inner = next((value[name] for name in ("value", "amount", "units", "minor_units") if name in value), None)
            code = next((value[name] for name in CURRENCIES if isinstance(value.get(name), str)), code)
            value = inner
            unit = "minor" if "minor_units" in given[key] else unit
        if len(unit) == 3 and unit not in ("sum",):
            code = code or unit
        is_smallest = unit in ("cents", "minor", "minor_units")
        if said := _named_amount(SMALLEST_UNIT[0] if is_smallest else server, value, code):
            return said
    return ""


def _named_amount(server, amount, currency):
    if isinstance(amount, str) and re.fullmatch(r"\d{1,12}(?:\.\d{1,4})?", amount):
        amount = float(amount) if "." in amount else int(amount)
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 10**12:
        return ""
    known = isinstance(currency, str) and re.fullmatch(r"[A-Za-z]{3}", currency)
    code = currency.upper() if known else ""
    if server not in SMALLEST_UNIT:
        exact = isinstance(amount, int) or round(amount, 2) != amount
        digits = f"{Decimal(str(amount)):,}" if exact else f"{amount:,.2f}"
        return f"{digits} {code}".strip()
    if not code or not isinstance(amount, int):
        return f"{amount:,} (in the currency's smallest unit)"
    places = 0 if code in WHOLE_UNITS else 3 if code in THOUSANDTHS else 2
    return f"{amount / 10**places:,.{places}f} {code}"


def _known(words, server, values):
    verb = VERBS.get(words[0]) if words else None
    # A verb that only begins a name would hide the others in it.
    more = any(word in VERBS or word in LOSING or word in JOINING for word in words[1:-1]) or set(words[1:]) & set(
        JOINING
    )
    ends_as_verb = len(words) > 2 and words[-1] in (*LOSING, "drop", "wipe")
    if verb is None or more or ends_as_verb or (verb in READING and server.lower() not in KNOWN_SERVERS):
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


def _unknown(tool, values):
    """Return the tool's own name and its first short values, for a tool that nobody knows."""
    said = tool[:60]
    shown = [f"{key} {value}" for key, value in list(values.items())[:FALLBACK_VALUES] if key not in STATEMENT_KEYS]
    return said + (f": {', '.join(shown)}" if shown else "")
