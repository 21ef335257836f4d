"""What the field of a tool's arguments means, read from its name in any of the usual spellings and some languages."""

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path

# {role: the words of its fields}: amount, currency, receiver, account, branch, environment, path, url, table, database,
# place, number, label, on (what something is done to) and statement.
WORDS = tomllib.loads(Path(__file__).with_name("field_words.toml").read_text(encoding="utf-8"))
# Words that say most at the end of a name: `order_id` is an order, `customer_email` a receiver, `table_name` a table.
GENERAL = ("number", "label")
ROLE_OF = {word: role for role, text in WORDS.items() for word in text.split()}
LONG = sorted((word for word in ROLE_OF if not word.isascii()), key=len, reverse=True)
SOURCES = {
    "from",
    "source",
    "sender",
    "absender",
    "von",
    "origin",
    "old",
    "previous",
}  # where it comes from, not what is acted on
NOT_AMOUNTS = {"count", "limit", "size", "page", "offset", "max", "min", "default", "key", "new", "old"}


@lru_cache(maxsize=4096)
def _words(name):
    spaced = re.sub(r"(?<=[^\W_A-Z])(?=[A-Z])", " ", name[:80])
    plain = "".join(char for char in unicodedata.normalize("NFKD", spaced) if not unicodedata.combining(char))
    # Where letters and marks belong together, the name is taken as it was sent, too.
    both = plain if plain.isascii() else spaced
    return tuple(word.casefold() for word in re.split(r"[\s_.\-/]+", both) if word)


def words_of(name):
    """Return the words of a field's or a tool's name: `customerEmail` and `customer_email` are customer, email."""
    return list(_words(name))


@lru_cache(maxsize=4096)
def role_of(name):
    """Return what a field of this name holds: one of WORDS; "" if its name says nothing."""
    words = _words(name)
    found = [role for word in words if (role := ROLE_OF.get(word) or _within(word))]
    if not found or SOURCES & set(words):
        return ""
    if "amount" in found and NOT_AMOUNTS & set(words):
        return ""
    if found[-1] in GENERAL:
        return next((role for role in found if role not in (*GENERAL, "amount", "currency")), found[-1])
    # `amount_currency` is a currency, `currency_amount` an amount, `to_address` an address of who gets it.
    return found[-1] if "amount" not in found or found[-1] in ("amount", "currency") else "amount"


def _within(word):
    """Return the role of a word in a script without blanks between words, from the longest known one in it."""
    if word.isascii():
        return ""
    return next((ROLE_OF[each] for each in LONG if len(each) > 1 and each in word), "")
