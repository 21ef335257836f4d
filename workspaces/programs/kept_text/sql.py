"""Answer one SELECT over a text, in an SQLite database in memory that holds nothing else."""

import math
import sqlite3
import time
from collections.abc import Iterable

from workspaces.programs.kept_text.lines import Refused
from workspaces.programs.kept_text.tables import Table, whole

SECONDS = 10.0  # of a processor, for making the table and for the query
MAX_HEAP = 512 * 1024**2  # bytes that SQLite takes in all
MAX_VALUE = 1_000_000  # bytes of one text or blob
MAX_SHOWN, MAX_ANSWER = 10_000, 1_000_000  # characters of a value, and of all values of an answer
MAX_REASON = 300  # characters of an error of SQLite, which can quote a value of the table
STEPS = 10_000  # of SQLite between two looks at the clock
LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 40_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 1000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
REFUSED_FUNCTIONS = ("load_extension", "fts3_tokenizer")  # a program of the host, and an address in memory
ONLY_SELECT = "Only one SELECT can be asked: nothing is changed, attached or set."


def query(
    pieces: Iterable[bytes],
    sql: str,
    *,
    table: str = "output",
    format: str = "auto",
    first_line: int = 1,
    limit: int = 100,
) -> dict:
    """Return {columns, rows, truncated, table} of one SELECT; the text is the table named `table`. Raise Refused.

    `truncated`: there are more rows than `limit`, or the answer was cut to its size. A blob is hexadecimal text.
    `table` is {name, format, columns, rows, left_out, gaps}: see `Table`.
    """
    until = time.process_time() + SECONDS
    read = Table(whole(pieces), first_line, format)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.set_progress_handler(lambda: time.process_time() > until, STEPS)
        _fill(connection, table, read)
        columns, rows, truncated = _selected(connection, sql, limit)
        count = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]  # noqa: S608 - ours
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError) as error:
        raise Refused(_reason(error)) from None
    finally:
        connection.close()
    about = {"name": table, "format": read.format, "columns": read.columns, "rows": count}
    about |= {"left_out": read.left_out, "gaps": read.gaps}
    return {"columns": columns, "rows": rows, "truncated": truncated, "table": about}


def _fill(connection: sqlite3.Connection, name: str, table: Table):
    """Make the table, and then allow nothing but to read it."""
    connection.execute(f"PRAGMA hard_heap_limit={MAX_HEAP}")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("PRAGMA trusted_schema=OFF")
    columns = ", ".join(
        f'"{column.replace(chr(34), chr(34) * 2)}" {kind}'
        for column, kind in zip(table.columns, table.types, strict=True)
    )
    connection.execute(f'CREATE TABLE "{name}" ({columns})')
    # The type of a column makes its numbers of texts, and nothing of an empty one.
    places = ", ".join("NULLIF(?, '')" if kind in ("INTEGER", "REAL") else "?" for kind in table.types)
    connection.execute("BEGIN")
    connection.executemany(f'INSERT INTO "{name}" VALUES ({places})', table.rows())  # noqa: S608 - ours
    connection.execute("COMMIT")
    connection.execute("PRAGMA query_only=ON")
    # SQLite declares these tables when they are first used, which the authorizer would refuse.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    for limit, value in LIMITS.items():
        connection.setlimit(limit, value)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.set_authorizer(_allowed)


def _allowed(action: int, first: str | None, second: str | None, *_) -> int:
    is_refused = action == sqlite3.SQLITE_FUNCTION and second in REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in ALLOWED and not is_refused else sqlite3.SQLITE_DENY


def _selected(connection: sqlite3.Connection, sql: str, limit: int) -> tuple[list[str], list[list], bool]:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise Refused(ONLY_SELECT)
    rows, size, truncated = [], 0, False
    for found in cursor:
        if len(rows) == limit or size > MAX_ANSWER:
            truncated = True
            break
        row = [_value(value) for value in found]
        shown = [value[:MAX_SHOWN] if isinstance(value, str) else value for value in row]
        truncated |= shown != row
        size += sum(len(value) if isinstance(value, str) else 20 for value in shown)
        rows.append(shown)
    cursor.close()
    return [column[0] for column in cursor.description], rows, truncated


def _value(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _reason(error: Exception) -> str:
    words = str(error)[:MAX_REASON].rstrip(".")
    if "interrupted" in words:
        return f"There is no answer, because the query takes more than {SECONDS:.0f} s of a processor."
    if "authoriz" in words or "one statement" in words:
        return f"{ONLY_SELECT} SQLite says: {words}."
    return f"SQLite says: {words}."
