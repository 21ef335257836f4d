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
OTHERS = re.compile(rf"(?: ?, ?{TABLE})*")
MAX_TOLD, MAX_OBJECTS = 2, 4  # statements and objects that a headline names
MAX_SQL = 20_000  # characters that are read for a headline
UNCERTAIN = ("\\", "/*", "--", "#", "$$", OPAQUE)  # what databases read differently, or is not known before it runs


def sql_title(text):
    """Return the headline of one or more statements that change something; "" if it is not certain what they do."""
    found = _statements(text)
    weights = [weight for weight in map(_weight, found) if weight is not None]
    if not weights:
        return ""
    ranked = sorted((words for words in found if _weight(words) is not None), key=_weight)
    told = list(dict.fromkeys(map(_statement_title, ranked)))[:MAX_TOLD]
    said = ", ".join([told[0], *(each[:1].lower() + each[1:] for each in told[1:])])
    more = len(found) - min(len(told), len(ranked))
    return said + (f" and {more} more statement{'s' if more > 1 else ''}" if more else "")


def _statement_title(words):
    """Return the headline of one statement, with every object that it names and what goes along with them."""
    pattern, title = READABLE[_weight(words)]
    text = " ".join(words)
    match = pattern.match(text)
    *kind, first = [re.sub(r'["`\[\]\s]', "", name) for name in match.groups()]
    more = OTHERS.match(text, match.end())[0] if title.startswith(("Drop", "Empty")) else ""
    objects = [first, *(re.sub(r'["`\[\]\s]', "", name) for name in more.split(",")[1:])]
    lower = {word.lower() for word in words}
    shown = ", ".join(objects[:MAX_OBJECTS]) + (
        f" and {len(objects) - MAX_OBJECTS} more" if objects[MAX_OBJECTS:] else ""
    )
    said = title.format(*(each.lower() for each in kind), shown, rows="rows" if "where" in lower else "all rows")
    if len(objects) > 1:
        said = re.sub(r"\bthe (table|database|schema|view|index) ", r"the \1s ", said).replace("indexs", "indexes")
    return said + (", with all that depends on it (CASCADE)" if "cascade" in lower else "")


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
