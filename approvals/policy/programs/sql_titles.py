"""Headlines of SQL text: what its weightiest statement does, and to which table."""

import re

from ..step_budget import spend
from ..title_values import marked
from .grammar import OPAQUE

# A name in any script; what is not known before the text runs may be part of it, or all of it.
NAME = rf'(?:["`\[][^"`\]]{{1,60}}["`\]]|(?!\d)[\w{OPAQUE}][\w${OPAQUE}]{{0,60}})'
TABLE = rf"({NAME}(?:\s?\.\s?{NAME}){{0,2}})"
KINDS = (
    "table|database|schema|materialized view|view|index|user|role|function|procedure|trigger|sequence|type|extension"
)
KINDS += "|keyspace|policy|publication|tablespace|stream|task|warehouse"
# The weightiest first: (a pattern of a statement, with TABLE for a name; the headline).
STATEMENTS = [
    (f"drop ({KINDS})(?: concurrently)?(?: if exists)? TABLE", "Drop {} {}"),
    ("truncate (?:table )?(?:only )?TABLE", "Empty table {}"),
    ("delete from (?:only )?TABLE", "Delete {rows} in {}"),
    ("alter table (?:if exists )?(?:only )?TABLE drop (?:column )?(?:if exists )?TABLE", "Drop {1} of table {0}"),
    ("alter table (?:if exists )?(?:only )?TABLE", "Alter table {}"),
    ("update (?:only )?TABLE (?:as )?(?:\\w+ )?set", "Change {rows} in {}"),
    ("(?:insert|replace) (?:into|overwrite) (?:table )?TABLE", "Add rows to {}"),
    ("merge into TABLE", "Change rows in {}"),
    (f"create (?:or replace )?(?:unique )?({KINDS})(?: if not exists)? TABLE", "Create {} {}"),
]
READABLE = [
    (re.compile(rf"(?<!\w){pattern.replace('TABLE', TABLE)}(?!\w)", re.IGNORECASE), title)
    for pattern, title in STATEMENTS
]
OTHERS = re.compile(rf"(?: ?, ?{TABLE})*")
# Words that begin a statement which changes something, and is told by its own first words.
TOLD_AS_WRITTEN = (
    "grant",
    "revoke",
    "alter",
    "call",
    "exec",
    "execute",
    "do",
    "copy",
    "load",
    "kill",
    "rename",
    "drop",
)
TOLD_AS_WRITTEN += ("detach", "attach", "refresh", "reindex", "vacuum", "system", "optimize", "flush", "reset", "purge")
ASKING = ("select", "with", "explain", "show", "describe", "desc", "pragma")
SHOWN = (
    "tables",
    "databases",
    "schemas",
    "columns",
    "index",
    "indexes",
    "create",
    "grants",
    "full",
    "status",
    "variables",
)
SOURCES = re.compile(rf"(?<!\w)(?:from|join) (?:only |lateral )?{TABLE}(?!\w)", re.IGNORECASE)
# Words of a statement that runs the text in its strings.
RUNS_TEXT = re.compile(r"(?<!\w)(?:do|declare|call|prepare|\w*execute\w*|\w*exec|query_to_xml)(?!\w)", re.IGNORECASE)
SCAN = re.compile(
    r"(?P<text>'[^']*(?:''[^']*)*(?:'|$)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|$))"
    r"|(?P<comment>/\*(?!!).*?(?:\*/|$)|--[^\n]*|(?:(?<=\n)|(?<![\s\S]))\s*#[^\n]*)"
    rf'|(?P<word>"[^"]*"|`[^`]*`|\[[^\]]{0, 80}\]|(?!\d)[\w{OPAQUE}][\w${OPAQUE}]*|\d[\w.]*|\S)',
    re.DOTALL,
)
MAX_TOLD, MAX_OBJECTS, MAX_WORDS = 2, 4, 6  # statements, objects, and words of another statement that a headline names
MAX_SQL = 20_000  # characters that are read for a headline


def sql_title(text):
    """Return the headline of one or more statements that change something; "" if none does."""
    found = _statements(text)
    deeds = [deed for words in found if (deed := _deed(words))]
    if not deeds:
        return next((said for words in found if (said := _as_written(words))), "")
    deeds.sort(key=lambda deed: deed[0])
    titles = list(dict.fromkeys(title for _, title in deeds))[:MAX_TOLD]
    said = ", ".join([titles[0], *(each[:1].lower() + each[1:] for each in titles[1:])])
    more = len(found) - min(len(titles), len(deeds))
    return said + (f" and {more} more statement{'s' if more > 1 else ''}" if more else "")


def read_title(text):
    """Return the headline of statements that ask for rows: "Query users, orders"; "" if the text is no such query.

    It names each table behind FROM and JOIN. A function that a query calls may change something: it is not "Read".
    """
    found = [words for words in _statements(text) if words[0].lower() in ASKING]
    if not found or len(found) != len(_statements(text)) or not all(map(_asks, found)):
        return ""
    if found[0][0].lower() not in ("select", "with"):
        return f"Run {' '.join(found[0][:MAX_WORDS])[:60]}" + ("…" if len(found[0]) > MAX_WORDS else "")
    tables = list(dict.fromkeys(_bare(match[1]) for words in found for match in SOURCES.finditer(" ".join(words))))
    named = [name for name in tables if name.lower() not in ("select", "lateral", "unnest")]
    more = f" and {len(named) - MAX_OBJECTS} more" if named[MAX_OBJECTS:] else ""
    return f"Query {', '.join(named[:MAX_OBJECTS])}{more}" if named else ""


def _asks(words):
    """Return whether words are a query and not a sentence that begins like one."""
    text = [word.lower() for word in words]
    if text[0] in ("select", "with"):
        return len(text) > 1 and ("from" in text or "*" in text or "(" in text or text[0] == "select")
    return len(text) > 1 and (text[0] in ("explain", "describe", "desc", "pragma") or text[1] in SHOWN)


def changes_data(text):
    """Return whether the text has a statement that deletes or changes rows, tables or whole databases."""
    return any(_deed(words) is not None for words in _statements(text))


def _deed(words):
    """Return (weight, headline) of a statement's weightiest deed, wherever it stands in it; None if it has none."""
    text = " ".join(words)
    if words[0].lower() == "explain" and "analyze" not in text.lower():
        return None
    for weight, (pattern, title) in enumerate(READABLE):
        if match := pattern.search(text):
            return weight, _title(match, title, text)
    return None


def _title(match, title, text):
    """Return the headline of one deed, with every object that it names and what goes along with them."""
    if "{1}" in title:
        return title.format(*map(_bare, match.groups()))
    *kind, first = map(_bare, match.groups())
    more = OTHERS.match(text, match.end())[0] if title.startswith(("Drop", "Empty")) else ""
    objects = [first, *(_bare(name) for name in more.split(",")[1:])]
    rest = re.findall(r"\w+", text[match.end() :].lower())
    shown = ", ".join(objects[:MAX_OBJECTS]) + (
        f" and {len(objects) - MAX_OBJECTS} more" if objects[MAX_OBJECTS:] else ""
    )
    rows = "rows" if "where" in rest else "all rows"
    said = title.format(*(each.lower() for each in kind), shown, rows=rows)
    if len(objects) > 1:
        said = (
            re.sub(rf" ({KINDS}) ", r" \1s ", said, count=1).replace("indexs", "indexes").replace("policys", "policies")
        )
    return said + (", with all that depends on it (CASCADE)" if "cascade" in rest else "")


def _bare(name):
    return marked(re.sub(r'["`\[\]]|\s(?=\.)|(?<=\.)\s', "", name).strip())


def _as_written(words):
    """Return the headline of another statement that changes something, as it is written but for its strings."""
    if words[0].lower() not in TOLD_AS_WRITTEN or len(words) < 2:
        return ""
    shown = [word for word in words if word != "''"][:MAX_WORDS]
    return f"Run {' '.join(shown)[:60]}" + ("…" if len(words) > MAX_WORDS else "")


def _statements(text):
    """Return the statements, each as its words, with those in strings that a statement runs; strings are ''."""
    if not isinstance(text, str):
        return []
    text = text[:MAX_SQL]
    spend(len(text) // 2)
    found, words, strings = [], [], []
    for match in SCAN.finditer(text.replace("\\'", "") + "\n;"):
        if match["text"]:
            strings.append(match["text"].strip("$'").removeprefix(f"{match['tag'] or ''}$"))
            words.append("''")
        elif match["word"] == ";":
            inside = RUNS_TEXT.search(" ".join(words)) and [each for said in strings for each in _plain(said)]
            found += [each for each in (inside or [words]) if each]
            words, strings = [], []
        elif match["word"]:
            words.append(match["word"])
    return [words for words in found if words]


def _plain(text):
    """Return the statements of a text that another one runs, whose own strings count as its words."""
    words = [match["word"] or match["text"] or "" for match in SCAN.finditer(text)]
    said = " ".join(word.strip("'") for word in words if word)
    return [part.split() for part in said.split(";") if part.split()]
