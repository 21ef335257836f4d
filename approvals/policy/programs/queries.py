"""SQL text: whether it is a single read-only statement; and the database shells that take SQL."""

import re

from .. import impacts
from ..shell_words import names
from ..step_budget import spend
from .grammar import parse_table, read_arguments
from .registry import argument_effects, handles

PLAIN = re.compile(r"\s+|[A-Za-z_][\w$]*|\d[\w.]*|.", re.DOTALL)
CLOSING = {"'": "'", '"': '"', "`": "`", "[": "]"}
DOLLARS = re.compile(r"\$\w*\$")
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


# Tables and functions of sqlite that reach beyond the database, by call or by a name alone.
OF_ENGINE = re.compile(
    r"fsdir|zipfile|csv|vsv|lsdir|dbstat|completion|generate_series|readfile|writefile|edit|load_extension|pragma_\w+"
    r"|fts3_tokenizer|sqlite_(?!(?:master|schema|sequence|temp_master|temp_schema)$)\w+|lo_import|lo_export|pg_read\w+"
)
PRAGMAS = names(
    """
    user_version schema_version encoding page_count page_size freelist_count journal_mode compile_options
    integrity_check quick_check foreign_keys database_list table_list collation_list function_list
    """
)
PRAGMAS_OF = names("table_info table_xinfo index_list index_info index_xinfo foreign_key_list foreign_key_check")


def _asks_pragma(words):
    """Return True for a pragma that only answers: a name, or a name and a table in parentheses."""
    if len(words) == 1:
        return words[0] in PRAGMAS
    return len(words) == 4 and words[0] in PRAGMAS_OF and words[1] == "(" and words[3] == ")"


def sql_problem(text):
    """Return why a text is not one read-only statement, or None."""
    if "\\" in text or "/*" in text or "--" in text or "#" in text or "$$" in text or DOLLARS.search(text):
        return "holds comments or quoting that databases read differently"
    tokens = tokens_of(text)
    if tokens is None:
        return "holds a quote or a bracket that is not closed"
    while tokens and tokens[-1] == ";":
        tokens.pop()
    words = [token.lower() for token in tokens]
    if not words or words[0] not in READING:
        return "does not begin as a reading statement"
    if ";" in words:
        return "holds more than one statement"
    changing = next((word for word in words if word in CHANGING), None)
    if changing:
        return f"holds {changing.upper()}"
    if re.search(r"^\s*\.", text, re.MULTILINE):
        return "holds a command of the database shell"
    table = next((name for name in (word.strip('"`[]') for word in words) if OF_ENGINE.fullmatch(name)), None)
    if table:
        return f"names {table[:40]}, which may do more than read"
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if following == "(" and re.match(r"[a-z_\"`\[]", word) and word.strip('"`[]') not in FUNCTIONS:
            return f"calls {word[:40]}, which may do more than read"
    if words[0] == "pragma" and not _asks_pragma(words[1:]):
        return "uses a pragma that may do more than read"
    if words[0] == "with" and "select" not in words:
        return "does not read"
    return None


def tokens_of(text):
    """Return the words, quoted names and signs of a statement; None if a quote is not closed."""
    tokens, at = [], 0
    while at < len(text):
        spend(6)
        end = _quote_end(text, at) if text[at] in CLOSING else PLAIN.match(text, at).end()
        if not end:
            return None
        if not text[at].isspace():
            tokens.append(text[at:end])
        at = end
    return tokens


def _quote_end(text, at):
    """Return the index after a quoted part, in which a doubled quote is a literal one; 0 if it is not closed."""
    quote, at = CLOSING[text[at]], at + 1
    while at := text.find(quote, at) + 1:
        if quote not in "'\"" or text[at : at + 1] != quote:
            return at
        spend(1)
        at += 1
    return 0


OPTIONS = parse_table(
    "sqlite3 : -readonly -json -csv -header -noheader -column -line -list -markdown -table -batch -bail -box : in sql*",
    "single-dash",
)
DOTS = re.compile(r"\.(?:tables|schema|indexes|databases|mode|headers|help|dbinfo|fullschema)(?: [\w %]*)?")


@handles("sqlite3")
def sqlite3(name, words, simple, judge):
    arguments, problems = read_arguments(OPTIONS["sqlite3"], words)
    found = [impacts.unknown(says) for says, word in problems]
    texts = [a.word for a in arguments if a.kind == "sql"]
    for argument in arguments:
        if argument.kind != "sql":
            found += argument_effects(argument, name, judge)
        if argument.kind == "in" and argument.word.text.startswith("file:"):
            found.append(impacts.unknown("names its database by an address"))
    if not {"-readonly", ":memory:"} & {word.text for word in words}:
        found.append(impacts.Effect("run", "makes the database if there is none", "medium"))
        made = [effect for a in arguments if a.kind == "in" for effect in judge.writes(a.word)]
        found += [effect for effect in made if effect.tier != "medium"]
    if not texts:
        found.append(impacts.unknown("reads its statements from elsewhere"))
    for word in texts:
        if word.literal and DOTS.fullmatch(word.text):
            continue
        problem = "is unknown until it runs" if word.opaque else sql_problem(word.text)
        if problem:
            found.append(impacts.unknown(f"runs a statement that {problem}"))
    return found
