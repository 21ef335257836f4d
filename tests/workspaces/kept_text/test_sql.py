"""One SELECT over a text: how it is a table, and that nothing but reading it is possible."""

import pytest

from workspaces.programs.kept_text import sql, tables
from workspaces.programs.kept_text.lines import Refused

CSV = b'name,size,"when",ratio\nalpha,3,007,1.5\n"be,ta",12,2024,2\ngamma,,x,1e3\n'
FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"


def ask(text: bytes, query="SELECT * FROM output", **wish):
    return sql.query([text], query, **wish)


def refused(query, text=CSV, **wish) -> str:
    with pytest.raises(Refused) as error:
        ask(text, query, **wish)
    return str(error.value)


def test_a_csv_has_the_columns_of_its_header_and_numbers_where_all_are():
    answer = ask(CSV)
    assert answer["columns"] == ["name", "size", "when", "ratio"]
    assert answer["rows"] == [["alpha", 3, "007", 1.5], ["be,ta", 12, "2024", 2.0], ["gamma", None, "x", 1000.0]]
    assert answer["table"] == {
        "name": "output",
        "format": "csv",
        "columns": ["name", "size", "when", "ratio"],
        "rows": 3,
        "left_out": 0,
        "gaps": 0,
    }
    assert ask(CSV, "SELECT sum(size), max(name) FROM output WHERE ratio < 10")["rows"] == [[15, "be,ta"]]


def test_a_tsv_and_lines_are_known_by_their_first_line():
    assert ask(b"\na\tb\r\n1\t2,3\r\n")["rows"] == [[1, "2,3"]]
    assert ask(b"hello\r\nworld", "SELECT n, text FROM output ORDER BY n DESC")["rows"] == [[2, "world"], [1, "hello"]]
    assert ask(b"", "SELECT count(*) FROM output")["rows"] == [[0]]


def test_json_lines_have_the_keys_of_all_objects():
    text = b'{"a": 1, "b": [1, 2.50]}\nWARNING\n{"a": true, "c": 123456789012345678901}\n{"a": null, "c": "x"}\n'
    answer = ask(text)
    assert answer["columns"] == ["a", "b", "c"]
    assert answer["rows"] == [[1, "[1, 2.50]", None], [1, None, "123456789012345678901"], [None, None, "x"]]
    assert answer["table"]["left_out"] == 1
    assert ask(text, "SELECT json_extract(b, '$[0]') FROM output")["rows"] == [[1], [None], [None]]
    assert ask(text, "SELECT value FROM output, json_each(b)")["rows"] == [[1], [2.5]]
    assert ask(text, "SELECT fullkey FROM output, json_tree(b) WHERE atom = 1")["rows"] == [["$[0]"]]


def test_half_a_surrogate_pair_is_a_question_mark():
    answer = ask(b'{"a\\udc00": "x\\ud800y"}\n')
    assert (answer["columns"], answer["rows"]) == (["a?"], [["x?y"]])


def test_a_format_and_a_first_line_can_be_said():
    text = b"Reading a, b and c\nx,y\n1,2\n"
    assert ask(text, first_line=2)["rows"] == [[1, 2]]
    assert ask(text, "SELECT text FROM output WHERE n > 2", format="lines")["rows"] == [["1,2"]]
    assert ask(text, format="lines", first_line=3)["rows"] == [[3, "1,2"]]


def test_rows_of_another_width_are_left_out_and_counted():
    answer = ask(b"a,b\n1,2\ndone\n1,2,3\n\n3,4\n")
    assert answer["rows"] == [[1, 2], [3, 4]]
    assert answer["table"]["left_out"] == 2


def test_where_output_was_not_kept_the_lines_that_were_cut_are_left_out():
    answer = ask(b"a,b\n1,2\n3,4\r\n[12,345 bytes were not kept]\r\n5,6\n7,8\n")
    assert answer["rows"] == [[1, 2], [7, 8]]
    assert (answer["table"]["gaps"], answer["table"]["left_out"]) == (1, 3)


def test_names_of_columns_are_told_apart():
    assert ask(b'id,ID,,"x""y"\n1,2,3,4\n')["columns"] == ["id", "ID_2", "column_3", 'x"y']


def test_a_table_of_too_many_columns_or_bytes_is_refused(monkeypatch):
    assert "more than 200 columns" in refused("SELECT 1", b",".join(b"c" for _ in range(201)))
    monkeypatch.setattr(tables, "MAX_BYTES", 1024**2)
    assert "more than 1 MB" in refused("SELECT 1", b"a" * (1024**2 + 1))


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO output VALUES (1, 2, 3, 4)",
        "DELETE FROM output",
        "UPDATE output SET name = 1",
        "DROP TABLE output",
        "CREATE TABLE more (a)",
        "CREATE TEMP TABLE more AS SELECT 1",
        "CREATE VIEW more AS SELECT 1",
        "ATTACH ':memory:' AS other",
        "ATTACH '{path}' AS other",
        "VACUUM INTO '{path}'",
        "VACUUM",
        "PRAGMA query_only=OFF",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "BEGIN",
        "ANALYZE",
        "REINDEX",
        "SELECT load_extension('{path}')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
    ],
)
def test_nothing_but_one_select_is_done(query, tmp_path):
    path = tmp_path / "made"
    assert refused(query.format(path=path)).startswith("Only one SELECT can be asked")
    assert not path.exists()


@pytest.mark.parametrize("query", ["SELECT readfile('/etc/passwd')", "SELECT writefile('x', 'y')", "SELECT edit('x')"])
def test_functions_of_the_command_line_are_not_there(query):
    assert "no such function" in refused(query)


def test_what_is_no_csv_is_refused_with_the_number_of_its_line():
    assert refused("SELECT 1", b"a,b\n10 %\r20 %,x\n") == (
        "Line 2 is no CSV: new-line character seen in unquoted field. "
        "Use the format `lines`, and take the values from the column `text`."
    )


def test_an_error_of_sqlite_is_said():
    assert len(refused("SELECT json_extract('{}', hex(zeroblob(10000)))")) < 350
    assert refused("SELECT nope FROM output") == "SQLite says: no such column: nope."
    assert "syntax error" in refused("SELEC")
    assert "null character" in refused("SELECT 'a\0b'")


def test_a_query_without_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(sql, "SECONDS", 0.2)
    assert "takes more than" in refused(FOREVER)


def test_a_value_has_a_largest_size():
    assert "too big" in refused("SELECT zeroblob(2000000)")


def test_an_answer_is_bounded_and_says_so():
    many = b"n,\n" + b"".join(b"%d,\n" % n for n in range(50))
    assert (len(ask(many, limit=50)["rows"]), ask(many, limit=50)["truncated"]) == (50, False)
    assert (len(ask(many, limit=49)["rows"]), ask(many, limit=49)["truncated"]) == (49, True)
    wide = ask(many, "SELECT hex(zeroblob(6000)) FROM output", limit=50)
    assert {len(row[0]) for row in wide["rows"]} == {10_000}
    assert wide["truncated"] is True
    large = ask(many, "SELECT hex(zeroblob(4000)) AS a FROM output, output AS other", limit=1000)
    assert large["truncated"] is True
    assert sum(len(row[0]) for row in large["rows"]) < sql.MAX_ANSWER + 10_000


def test_values_that_json_has_not_are_texts():
    assert ask(CSV, "SELECT 9e999, -9e999, x'00ff', CAST(x'ff' AS TEXT)")["rows"] == [["inf", "-inf", "00ff", "\ufffd"]]
