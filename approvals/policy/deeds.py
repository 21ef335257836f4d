"""Titles of tool calls: the deed, from the tool's name, from what is known of its server, and from its arguments."""

import re

from . import mcp_servers
from . import title_words as words
from .amounts import amount_of_fields
from .field_names import role_of, words_of
from .phrases import Phrase
from .programs.acts import PRODUCTION
from .programs.sql_titles import changes_data, read_title, sql_title
from .title_values import NAME, counted, named_fields, plain_value, quoted, unquoted

MONEY = {"refund": "refund", "charge": "charge", "payment": "pay", "payout": "payout", "transfer": "transfer"}
MONEY |= {"pay": "pay"}
# Further words of tools that move money, under their own names in a title.
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
CURRENCIES = ("currency", "currency_code", "currencyCode", "ccy")
PLACES = ("repository", "project", "database", "table", "collection", "bucket", "dataset", "namespace", "environment")
JOINING = ("and", "or", "then", "of", "rid", "all", "everything", "with", "before", "after")
SENDING = ("send", "post", "publish", "reply", "share", "invite", "grant", "assign", "push", *words.MONEY)
INTO = ("load", "import", "upload")  # verbs whose place is where something goes
STATEMENT_KEYS = ("sql", "query", "statement")
DETAILS = ("place", "database", "table", "branch", "environment", "path", "url", "account", "receiver", "on")
LIVE = re.compile(r"(?i)(?<!\w)(?:prod|production|live|prd)(?!\w)")  # as an object's name: not prod_1, an identifier
FALLBACK_VALUES, MAX_DETAILS = 4, 3
MAX_DEED = 160


def deed(server, tool, given, entries=None):
    """Return the title of a call: "Create an issue in acme/shop (github)". The names are checked to be plain."""
    return str(deed_phrase(server, tool, given, entries))


def deed_phrase(server, tool, given, entries=None):
    """Return the title as a Phrase, which a page can say in another language.

    `entries`: what the agent's settings have under the server's name, as in the context of the policy.
    """
    known = mcp_servers.find(server, tool, given, entries)
    said = _statement(given, known) or (_of_known(known, tool, given) if known else _of_unknown(tool, given))
    said = _shortened(said)
    return Phrase.of(words.BY, title=said, server=server) if server else said


def _shortened(said):
    text = str(said)
    return said if len(text) <= MAX_DEED else text[: MAX_DEED - 1] + "…"


def moves_money(tool):
    """Return whether the tool's name says that it moves money, and not only reads about it."""
    named = words_of(tool[:60])
    moves = bool(_money_verb(named)) or bool(set(named[:3]) & set(MOVING))
    by_name = bool(named) and words.VERBS.get(named[0]) not in words.READING and moves
    return by_name or "money" in mcp_servers.effects_of(tool)


def loses_data(tool, given):
    """Return whether the tool's name, or the statement in its arguments, says that it deletes or changes data."""
    statements = (given.get(key) for key in STATEMENT_KEYS)
    by_name = any(word in LOSING for word in words_of(tool[:60])[:2]) or "delete" in mcp_servers.effects_of(tool)
    return by_name or any(changes_data(text) for text in statements if text)


def amount_of(tool, given):
    """Return the amount and currency that a call of an MCP tool names: "1,299.00 EUR"; "" if there is none.

    Where nobody knows the unit, the number stands as it was sent: it is never less than what moves.
    """
    server, name, given = call_of(tool, given)
    said = _amount(server, given, mcp_servers.find(server, name, given)) if isinstance(given, dict) else None
    return str(said).removesuffix(" (unit unclear)") if said else ""


def call_of(tool, arguments):
    """Return (server, tool, arguments) of a call by `mcp__server__tool`, or of `mcp` from its arguments."""
    if tool == "mcp":
        parts = arguments.get("server"), arguments.get("tool"), arguments.get("arguments") or {}
        return parts if all(isinstance(part, str) for part in parts[:2]) else ("", "", parts[2])
    _, server, name = tool.split("__", 2) if tool.startswith("mcp__") and tool.count("__") > 1 else ("", "", tool)
    return server, name, arguments


def kind_of(server, tool, given):
    """Return (verb, thing, title) of a call: words of title_words, else what its statement does or its name."""
    known = mcp_servers.find(server, tool, given)
    if said := _statement(given, known):
        return "", "", said
    if known:
        verb, thing = known.tool.deed_of(given)
        return ("", "", tool) if _is_claimed(known, verb) else (verb, thing, "")
    named = words_of(tool[:60])
    if verb := _moving_verb(named):
        return verb, "", ""
    return (_verb(named), " ".join(named[1:]), "") if _verb(named) else ("", "", tool[:60])


def _is_claimed(known, verb):
    """Return whether only the tool's own name says that it reads: a server can name its tools as it likes."""
    return known.sure == "arguments" and verb in words.READING


# What statements say --------------------------------------------------------------------------------------------------


def _statement(given, known):
    """Return the title that the SQL of a call gives; "" if it holds none, or its tool takes no SQL."""
    keys = known.tool.statement if known else STATEMENT_KEYS
    found = [value for key in keys if isinstance(value := _value(given, key), str | list)]
    text = ";".join(part for each in found for part in ([each] if isinstance(each, str) else map(str, each)))
    return sql_title(text) or read_title(text)


# What is known of a server's tool -------------------------------------------------------------------------------------


def _of_known(known, tool, given):
    """Return the title of a tool that the table of its server has, with the words and the arguments from there."""
    about = known.tool
    verb, thing = about.deed_of(given)
    label = next((text for key in about.label if (text := quoted(key, _value(given, key)))), "")
    numbers = [text for text in (_named(given, about.number),) if text]
    if (about.count and (count := _count(given, about.count))) and (count > 1 or not (label or numbers)):
        numbers = []
        thing_said = Phrase.of(words.ROWS, number=f"{count:,}", things=noun_of(thing, count))
    elif verb in words.MADE and not numbers:
        thing_said = _with_article(thing)
    else:
        thing_said = noun_of(thing)
    amount = _amount("", given, known)
    pieces = [amount] if verb in words.MONEY and amount else [thing_said, *numbers]
    where = list(_where(given, about))
    pieces += [label, *where]
    others = named_fields({key: value for key, value in given.items() if key not in about.arguments})
    pieces += [Phrase.of(words.ON, thing=text) for _field, text in others.get("on", ())[:1]]
    if _is_claimed(known, verb):
        return Phrase.of(words.OF_TOOL, tool=tool[:60], values=tuple(filter(None, pieces)))
    said = Phrase.of(words.DEEDS[verb][0], object=tuple(filter(None, pieces)))
    if amount and verb not in words.MONEY:
        said = Phrase.of(words.AND_AMOUNT, title=said, amount=amount)
    details = [_detail(key, text) for key in about.detail if (text := _named(given, ((key,),)))]
    details += _rest(others, [], (role for role in DETAILS if role != "on"))
    return _with_details(said, details, (*numbers, *map(str, where)))


def _where(given, about):
    for keys, template, name in (
        (about.on, words.ON, "thing"),
        (about.place, words.INTO if about.deed.split(" ")[0] in INTO else words.IN, "place"),
        (about.to, words.TO, "receiver"),
    ):
        if text := _named(given, keys):
            yield Phrase.of(template, **{name: text})


def _value(given, key):
    """Return an argument by its name, or one inside an object: `parent.page_id`."""
    name, _, inner = key.partition(".")
    value = given.get(name)
    return value.get(inner) if inner and isinstance(value, dict) else None if inner else value


def _named(given, alternatives):
    """Return the first of some alternatives whose arguments all have a value, else the first that has any; or ""."""
    found = [[_shown(given, key) for key in keys] for keys in alternatives]
    whole = next((texts for texts in found if all(texts)), None) or next((texts for texts in found if any(texts)), ())
    return "/".join(filter(None, whole))


def _shown(given, key):
    """Return an argument as it may stand in a title, "…" for a text that may not; "" if there is none."""
    value = _value(given, key)
    return unquoted(key, value) or ("…" if isinstance(value, str) and value else "")


def _count(given, key):
    value = given.get(key)
    return len(value) if isinstance(value, list | tuple) else 0


# What a name and its fields say ---------------------------------------------------------------------------------------


def _of_unknown(tool, given):
    """Return the title of a tool that nobody knows: by its verb, if it has one; else its own name and what it names."""
    named, fields, amount = words_of(tool[:60]), named_fields(given), amount_of_fields(given)
    if money := _money(named, given, fields, amount):
        return money
    said = _by_verb(named, fields, given)
    if said and not str(said).endswith(str(amount)) and amount:
        return Phrase.of(words.AND_AMOUNT, title=said, amount=amount)
    return said or _by_name(tool, fields, given, amount)


def _money_verb(named):
    return next((MONEY[word.rstrip("s")] for word in named[:3] if word.rstrip("s") in MONEY), "")


def _moving_verb(named):
    """Return the verb of a name that says that money moves; "" if it reads, deletes or cancels."""
    verb = _money_verb(named)
    return "" if not verb or words.VERBS.get(named[0]) in (*words.READING, "delete", "cancel") else verb


def _money(named, given, fields, amount):
    if not (verb := _moving_verb(named)):
        return None
    used, pieces = [], [amount] if amount else []
    for role, template, name in (("on", words.ON, "thing"), ("receiver", words.TO, "receiver")):
        if text := _first(fields, role, used):
            pieces.append(Phrase.of(template, **{name: text}))
    details = [_detail_of(field, used) for field in fields.get("account", ())]
    if details and not any(field in used for field, _ in fields.get("receiver", ())):
        pieces.append(Phrase.of(words.TO, receiver=fields["account"][0][1]))
        details = details[1:]
    if verb == "pay" and not amount:
        pieces = [Phrase.of(words.A_PAYMENT), *pieces]
    said = Phrase.of(words.DEEDS[verb][0], object=tuple(pieces))
    return _with_details(said, [*details, *_rest(fields, used, ("place", "environment", "branch", "number"))])


def _by_verb(named, fields, given):
    """Return the title of a name such as `update_contact`; None where a first word could hide what follows it."""
    verb = _verb(named)
    if not verb:
        return None
    used, thing = [], " ".join(named[1:])
    count, counts = counted(given)
    number = _first(fields, "number", used)
    label = _first(fields, "label", used)
    if count and (not thing or thing.rstrip("s") == counts.rstrip("s")):
        pieces = [Phrase.of(words.ROWS, number=f"{count:,}", things=noun_of(counts, count)), label]
    else:
        made = verb in words.MADE
        pieces = [_with_article(thing) if made and thing else noun_of(thing), "" if made else number, label]
    pieces += [*_in_place(given, fields, used, verb)]
    if verb in SENDING and (receiver := _first(fields, "receiver", used)):
        pieces.append(Phrase.of(words.TO, receiver=receiver))
    if thing_on := _first(fields, "on", used):
        pieces.append(Phrase.of(words.ON, thing=thing_on))
    said = Phrase.of(words.DEEDS[verb][0], object=tuple(filter(None, pieces)))
    return _with_details(said, _rest(fields, used, DETAILS))


def _verb(named):
    """Return the verb that a tool's name begins with; "" for a read, and where other words of the name say more."""
    verb = words.VERBS.get(named[0], "") if named else ""
    inner = any(word in words.VERBS or word in LOSING or word in JOINING for word in named[1:-1])
    ends_as_verb = len(named) > 2 and named[-1] in (*LOSING, "drop", "wipe")
    is_unsure = inner or ends_as_verb or bool(set(named[1:]) & set(JOINING))
    return "" if is_unsure or verb in words.READING else verb


def _in_place(given, fields, used, verb):
    template = words.INTO if verb in INTO and "table" in fields and not fields.get("place") else words.IN
    owner, repo = plain_value("owner", given.get("owner")), plain_value("repo", given.get("repo"))
    if owner and repo:
        used += ["owner", "repo"]
        return [Phrase.of(words.IN, place=f"{owner}/{repo}")]
    for role in ("place", "table", "database"):
        if text := _first(fields, role, used):
            return [Phrase.of(template, place=text)]
    return []


def _first(fields, role, used):
    """Return the first value of a role, and note its field as used; "" if there is none."""
    for field, text in fields.get(role, ()):
        if field not in used:
            used.append(field)
            return text
    return ""


def _rest(fields, used, roles):
    """Return what other fields of these roles hold, as details of a title."""
    found = [(field, text) for role in roles for field, text in fields.get(role, ()) if field not in used]
    return [_detail(field, text) for field, text in found][:MAX_DETAILS]


def _detail_of(pair, used):
    used.append(pair[0])
    return _detail(*pair)


def _detail(field, text):
    shown = field.rpartition(".")[2]
    return f"{shown if NAME.fullmatch(shown) else _role_name(shown)} {text}"


def _role_name(field):
    return words.ROLES.get(role_of(field), "value")


def _with_details(said, details, objects=()):
    text = ", ".join(details)
    said = Phrase.of(words.DETAILED, title=said, details=text) if text else said
    production = any(map(PRODUCTION.search, details)) or any(map(LIVE.search, objects))
    return Phrase.of(words.PRODUCTION, title=said) if production and "production" not in text else said


def _by_name(tool, fields, given, amount):
    """Return the tool's own name and its first values, those first whose fields say what they mean."""
    used = []
    count, counts = counted(given)
    shown = [f"{counts}: {count:,}"] if count else []
    shown += _rest(fields, used, ("number", "label", "receiver", "account", "on", *DETAILS[:7]))
    shown += [_detail(field, text) for field, text in fields.get("", ()) if NAME.fullmatch(field)]
    shown = [*([amount] if amount else []), *dict.fromkeys(shown)][:FALLBACK_VALUES]
    if not shown:
        return tool[:60]
    values = tuple(
        part if at == len(shown) - 1 else Phrase.of(words.LISTED, value=part) for at, part in enumerate(shown)
    )
    said = Phrase.of(words.OF_TOOL, tool=tool[:60], values=values)
    is_production = any(PRODUCTION.search(str(part)) for part in shown) and "production" not in str(said)
    return Phrase.of(words.PRODUCTION, title=said) if is_production else said


# Words ----------------------------------------------------------------------------------------------------------------


def _amount(server, given, known):
    if known:
        about = known.tool
        return (
            amount_of_fields(given, unit=about.unit, field=about.amount, currency=about.currency)
            if about.amount
            else None
        )
    return amount_of_fields(given, unit="minor" if server == "stripe" else "")


def noun_of(thing, count=1):
    """Return a thing's name, or its plural, as a msgid if it is one of ours."""
    thing = thing.replace("_", " ")
    if count != 1:
        thing = plural(thing)
    return Phrase.of(thing) if thing in words.THINGS else thing


def plural(thing):
    """Return the English plural of a thing: issues, repositories, branches."""
    if thing.endswith("s") and not thing.endswith(("ss", "us")):
        return thing
    if re.search(r"[^aeiou]y$", thing):
        return f"{thing[:-1]}ies"
    return f"{thing}es" if re.search(r"(?:s|x|ch|sh)$", thing) else f"{thing}s"


def _with_article(thing):
    thing = thing.replace("_", " ")
    if thing.endswith("s") and not thing.endswith("ss"):
        return noun_of(thing)
    return Phrase.of(words.AN if thing[:1] in "aeiou" else words.A, thing=noun_of(thing))
