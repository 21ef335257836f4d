"""Headlines of SQL text: what its weightiest statement does, and to which table."""

import re

from .grammar import OPAQUE
from .queries import tokens_of

NAME = r'["`\[]?[A-Za-z_][\w$]{0,40}["`\]]?'
TABLE = rf"({NAME}(?:\s?\.\s?{NAME}){{0,2}})"
# The weightiest first: (a pattern of the statement's beginning, with TABLE for a name; the headline).
STATEMENTS = [
    ("drop (table|database|schema|view|index)(?: if exists)? TABLE", "Drop the {} {}"),
    ("truncate (?:table )?TABLE", "Empty the table {}"),
    ("delete from (?:only )?TABLE", "Delete {rows} in {}"),
    ("alter table (?:if exists )?(?:only )?TABLE", "Alter the table {}"),
    ("update (?:only )?TABLE set", "Change {rows} in {}"),
    ("(?:insert|replace) into TABLE", "Add rows to {}"),
    ("create (?:unique )?(table|view|index|schema|database)(?: if not exists)? TABLE", "Create the {} {}"),
]
READABLE = [(re.compile(pattern.replace("TABLE", TABLE), re.IGNORECASE), title) for pattern, title in STATEMENTS]
MAX_SQL = 20_000  # characters that are read for a headline
UNCERTAIN = ("\\", "/*", "--", "#", "$$", OPAQUE)  # what databases read differently, or is not known before it runs


def sql_title(text):
    """Return the headline of one or more statements that change something; "" if it is not certain what they do."""
    found = _statements(text)
    weights = [weight for weight in map(_weight, found) if weight is not None]
    if not weights:
        return ""
    weight = min(weights)
    pattern, title = READABLE[weight]
    words = next(words for words in found if _weight(words) == weight)
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
