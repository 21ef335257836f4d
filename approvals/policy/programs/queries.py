"""SQL as text: a single statement that only reads, or not; and the database shells that take it."""

import re

from .. import effects
from ..words import names
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles

TOKEN = re.compile(r"\s+|'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`[^`]*`|\[[^\]]*\]|[A-Za-z_][\w$]*|\d[\w.]*|.", re.DOTALL)
READING = {"select", "explain", "show", "describe", "pragma", "values", "with", "table"}
CHANGING = names(
    """
    insert update delete drop alter create truncate grant revoke copy into call do execute exec merge replace
    attach detach vacuum reindex commit begin rollback set lock load import handler outfile dumpfile refresh
    listen notify prepare analyze
    """
)
FUNCTIONS = names(
    """
    count sum avg min max coalesce lower upper length substr substring trim round abs now date datetime strftime
    date_trunc extract cast concat nullif greatest least row_number rank dense_rank lag lead over in exists any
    all and or not as on from where by values using json_extract jsonb_array_length array_agg string_agg
    group_concat ifnull typeof instr printf left right position to_char to_date age floor ceil filter interval
    when then else select join table_info index_list foreign_key_list distinct case like between union except
    intersect limit offset
    """
)


def sql_problem(text):
    """Return what keeps a text from being one reading statement, or None."""
    if "\\" in text or "/*" in text or "--" in text or "#" in text or "$$" in text or re.search(r"\$\w*\$", text):
        return "holds comments or quoting that databases read differently"
    tokens = [t for t in TOKEN.findall(text) if not t.isspace()]
    while tokens and tokens[-1] == ";":
        tokens.pop()
    words = [token.lower() for token in tokens]
    if not words or words[0] not in READING:
        return "does not begin as a reading statement"
    if ";" in words:
        return "holds more than one statement"
    if "'" in words or '"' in words or "`" in words:
        return "holds a quote that is not closed"
    changing = next((word for word in words if word in CHANGING), None)
    if changing:
        return f"holds {changing.upper()}"
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if following == "(" and re.match(r"[a-z_\"`\[]", word) and word.strip('"`[]') not in FUNCTIONS:
            return f"calls {word[:40]}, which may do more than read"
    if words[0] == "pragma" and "=" in words:
        return "sets a pragma"
    if words[0] == "with" and "select" not in words:
        return "does not read"
    return None


OPTIONS = parse_table(
    "sqlite3 : -readonly -json -csv -header -noheader -column -line -list -markdown -table -batch -bail -box : in sql*",
    "single-dash",
)
DOTS = re.compile(r"\.(?:tables|schema|indexes|databases|mode|headers|help|dbinfo|fullschema)(?: [\w %]*)?")


@handles("sqlite3")
def sqlite3(name, words, simple, judge):
    arguments, problems = read_arguments(OPTIONS["sqlite3"], words)
    found = [effects.unknown(says) for says, word in problems]
    texts = [a.word for a in arguments if a.kind == "sql"]
    for argument in arguments:
        if argument.kind != "sql":
            found += argument_effects(argument, name, judge)
    if not texts:
        found.append(effects.unknown("reads its statements from elsewhere"))
    for word in texts:
        if word.literal and DOTS.fullmatch(word.text):
            continue
        problem = "is not known before it runs" if word.opaque else sql_problem(word.text)
        if problem:
            found.append(effects.unknown(f"runs a statement that {problem}"))
    return found
