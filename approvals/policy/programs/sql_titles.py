"""Headlines of SQL text: what its weightiest statement does, and to which table."""

import re

from .grammar import OPAQUE
from .queries import tokens_of

NAME = r'["`\[]?[A-Za-z_][\w$]{0,40}["`\]]?'
TABLE = rf"({NAME}(?:\s?\.\s?{NAME}){{0,2}})"
# The weightiest first: (a pattern of the statement's beginning, the headline).
STATEMENTS = [
    (rf"drop (table|database|schema|view|index)(?: if exists)? {TABLE}", "Drop the {} {}"),
    (rf"truncate (?:table )?{TABLE}", "Empty the table {}"),
    (rf"delete from (?:only )?{TABLE}", "Delete {rows} in {}"),
    (rf"alter table (?:if exists )?(?:only )?{TABLE}", "Alter the table {}"),
    (rf"update (?:only )?{TABLE} set", "Change {rows} in {}"),
    (rf"(?:insert|replace) into {TABLE}", "Add rows to {}"),
    (rf"create (?:unique )?(table|view|index|schema|database)(?: if not exists)? {TABLE}", "Create the {} {}"),
]
READABLE = [(re.compile(pattern, re.IGNORECASE), title) for pattern, title in STATEMENTS]
MAX_SQL = 20_000  # characters that are read for a headline
UNCERTAIN = ("\\", "/*", "--", "#", "$$", OPAQUE)  # what databases read differently, or is not known before it runs


def sql_title(text):
    """Return the headline of one or more statements that change something; "" if it is not certain what they do."""
    found = _statements(text)
    weights = [weight for weight in map(_weight, found) if weight is not None]
    if not weights:
        return ""
    at, weight = min(enumerate(map(_weight, found)), key=lambda pair: len(READABLE) if pair[1] is None else pair[1])
    pattern, title = READABLE[weight]
    words = found[at]
    named = [re.sub(r'["`\[\]\s]', "", name) for name in pattern.match(" ".join(words)).groups()]
    said = title.format(*named, rows="rows" if "where" in (word.lower() for word in words) else "all rows")
    more = len(found) - 1
    return said + (f" and {more} more statement{'s' if more > 1 else ''}" if more else "")


def changes_data(text):
    """Return whether the text has a statement that deletes or changes rows, tables or whole databases."""
    return any(weight is not None for weight in map(_weight, _statements(text)))


def _statements(text):
    """Return the statements, each as its words; [] if it is not certain how a database reads them."""
    if not isinstance(text, str) or len(text) > MAX_SQL or any(sign in text for sign in UNCERTAIN):
        return []
    found = [[]]
    for token in tokens_of(text) or []:
        if token == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [words for words in found if words]


def _weight(words):
    """Return the index of the statement's pattern; None for one that is not among them."""
    beginning = " ".join(words[:10])
    return next((at for at, (pattern, _) in enumerate(READABLE) if pattern.match(beginning)), None)
