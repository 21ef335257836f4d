"""Search and query what a command printed, and a file, on its page and over the API: the same for both."""

import pytest

from dashboard.database import clock
from workspaces.models import Command

from .conftest import keep_tree, make_command
from .test_search_texts import print_it

CSV = b"name,size\nalpha,3\nbe\xe2\x80\xaeta,12\n<b>gamma</b>,7\n"
AT = "/w/payments/repo-task-1"


@pytest.fixture
def command(workspace):
    made = make_command(workspace, "make sizes", started_at=clock.now())
    print_it(made, CSV)
    return made


@pytest.fixture
def files(workspace, team, tmp_path):
    """The workspace with a table in its first snapshot."""
    tree = keep_tree(team, tmp_path, {"data/sizes.jsonl": '{"size": 3}\n{"size": 4}\n', ".env": "KEY=1\n"})
    workspace.snapshots.filter(number=1).update(tree=tree)
    return workspace


def post(client, at, **body):
    return client.post(f"/api/v1{at}", body, content_type="application/json")


def test_lines_of_an_output_are_found_over_the_api(command, api, agent_token):
    found = api(agent_token).get(f"/api/v1/commands/{command.pk}/output/search?pattern=^B&ignore_case=1&before=1")
    assert found.json() == {
        "lines": [
            {"n": 2, "text": "alpha,3", "column": 0, "length": 7, "matches": []},
            {"n": 3, "text": "be\u202eta,12", "column": 0, "length": 8, "matches": [[0, 1]]},
        ],
        "found": 1,
        "more_from": None,
    }


def test_an_output_is_asked_by_sql_over_the_api(command, api, agent_token):
    sql = "SELECT name, size FROM output WHERE size > 5 ORDER BY size"
    answer = post(api(agent_token), f"/commands/{command.pk}/output/query", sql=sql, limit=1).json()
    assert (answer["columns"], answer["rows"], answer["truncated"]) == (["name", "size"], [["<b>gamma</b>", 7]], True)
    assert answer["table"] == {
        "name": "output",
        "format": "csv",
        "columns": ["name", "size"],
        "rows": 3,
        "left_out": 0,
        "gaps": 0,
    }


def test_a_file_of_a_snapshot_is_searched_and_asked_over_the_api(files, api, agent_token):
    client = api(agent_token)
    where = "/api/v1/workspaces/repo-task-1/search?path=data/sizes.jsonl&snapshot=1"
    assert [line["n"] for line in client.get(f"{where}&pattern=4").json()["lines"]] == [2]
    body = {"path": "data/sizes.jsonl", "snapshot": 1, "sql": "SELECT sum(size) FROM file"}
    assert post(client, "/workspaces/repo-task-1/query", **body).json()["rows"] == [[7]]
    missing = post(client, "/workspaces/repo-task-1/query", **body | {"path": "data/none.csv"})
    assert missing.status_code == 404


def test_a_file_that_holds_secrets_is_refused_to_an_agent_as_it_is_to_read(files, api, agent_token):
    client = api(agent_token)
    read = client.get("/api/v1/workspaces/repo-task-1/files/.env?snapshot=1")
    searched = client.get("/api/v1/workspaces/repo-task-1/search?path=.env&snapshot=1&pattern=KEY")
    asked = post(client, "/workspaces/repo-task-1/query", path=".env", snapshot=1, sql="SELECT text FROM file")
    assert (read.status_code, searched.status_code, asked.status_code) == (403, 403, 403)
    assert searched.json()["detail"] == asked.json()["detail"] == read.json()["detail"]


@pytest.mark.parametrize(
    "wish",
    [
        "",
        "?pattern=",
        "?pattern=(",
        "?pattern=a&limit=0",
        "?pattern=a&limit=1001",
        "?pattern=a&before=101",
        "?pattern=a&after=-1",
        "?pattern=a&from_line=0",
        "?pattern=a&nosuch=1",
        f"?pattern={'a' * 1001}",
    ],
)
def test_a_search_that_cannot_be_is_refused(command, api, agent_token, wish):
    answer = api(agent_token).get(f"/api/v1/commands/{command.pk}/output/search{wish}")
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sql": ""},
        {"sql": "x" * 10_001},
        {"sql": "DELETE FROM output"},
        {"sql": "SELECT 1", "format": "xml"},
        {"sql": "SELECT 1", "limit": 1001},
        {"sql": "SELECT 1", "first_line": 0},
        {"sql": "SELECT 1", "table": "other"},
    ],
)
def test_a_query_that_cannot_be_is_refused(command, api, agent_token, body):
    answer = post(api(agent_token), f"/commands/{command.pk}/output/query", **body)
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")


def test_who_may_read_the_output_may_ask_and_nobody_else(command, files, api, token_of, vera, mallory):
    paths = {
        f"/commands/{command.pk}/output/query": {},
        "/workspaces/repo-task-1/query": {"path": "data/sizes.jsonl", "snapshot": 1},
    }
    for path, more in paths.items():
        assert post(api(token_of(vera)), path, sql="SELECT 1", **more).status_code == 200
        assert post(api(token_of(mallory)), path, sql="SELECT 1", **more).status_code == 404
        assert post(api("none"), path, sql="SELECT 1", **more).status_code == 401
    searched = f"/api/v1/commands/{command.pk}/output/search?pattern=a"
    assert [api(token_of(who)).get(searched).status_code for who in (vera, mallory)] == [200, 404]


def test_an_output_that_was_deleted_is_gone_and_one_that_has_not_begun_is_empty(command, workspace, api, agent_token):
    Command.objects.filter(pk=command.pk).update(swept_at=clock.now())
    gone = api(agent_token).get(f"/api/v1/commands/{command.pk}/output/search?pattern=a")
    assert (gone.status_code, gone.json()["detail"][:24]) == (404, "Its output was kept unti")
    waiting = make_command(workspace)
    answer = api(agent_token).get(f"/api/v1/commands/{waiting.pk}/output/search?pattern=a").json()
    assert answer == {"lines": [], "found": 0, "more_from": None}


def test_the_page_of_a_command_leads_to_its_search(command, vera, browser_of, read):
    page = read(browser_of(vera), f"{AT}/commands/{command.pk}/")
    assert f'href="{AT}/commands/{command.pk}/search/"' in page
    Command.objects.filter(pk=command.pk).update(swept_at=clock.now())
    assert "/search/" not in read(browser_of(vera), f"{AT}/commands/{command.pk}/").partition("<main")[2]


def test_the_page_marks_matches_and_hidden_characters_and_escapes(command, vera, browser_of, read):
    page = read(browser_of(vera), f"{AT}/commands/{command.pk}/search/?pattern=t|gam&around=0")
    assert "2 lines match." in page
    assert 'data-bytes="e280ae"' in page
    assert "<mark>t</mark>a,12" in page
    assert "&lt;b&gt;<mark>gam</mark>ma&lt;/b&gt;,7" in page
    assert "\u202e" not in page
    assert "<b>gamma" not in page


def test_the_page_shows_the_rows_of_a_query(command, vera, browser_of, read):
    page = read(
        browser_of(vera),
        f"{AT}/commands/{command.pk}/search/?sql=SELECT+name,NULL+FROM+output&format=auto&first_line=1",
    )
    assert "3 rows. The table has 3." in " ".join(page.split())
    assert 'be<span class="mark' in page.replace("\n", "")
    assert "<small>NULL</small>" in page
    assert "&lt;b&gt;gamma&lt;/b&gt;" in page


def test_a_refusal_stands_in_the_form_that_was_sent(command, vera, browser_of, read):
    at = f"{AT}/commands/{command.pk}/search/"
    page = read(browser_of(vera), f"{at}?sql=DROP+TABLE+output&format=auto&first_line=1")
    assert "Only one SELECT can be asked" in page.partition('id="query-title"')[2]
    assert "Only one SELECT" not in page.partition('id="query-title"')[0]
    assert "The pattern cannot be read" in read(browser_of(vera), f"{at}?pattern=(&around=0").partition('id="query-')[0]


def test_a_refusal_that_quotes_the_text_marks_its_hidden_characters(command, vera, browser_of, read):
    sql = "SELECT+json_extract('{}',name)+FROM+output+WHERE+name+LIKE+'be%25'&format=auto&first_line=1"
    page = read(browser_of(vera), f"{AT}/commands/{command.pk}/search/?sql={sql}")
    refusal = page.partition('id="query-title"')[2].partition("SQLite says")[2].partition("</p>")[0]
    assert 'data-bytes="e280ae"' in refusal
    assert "\u202e" not in refusal


@pytest.mark.parametrize("first_line", ["0", "99999999999999999999999", "x"])
def test_a_first_line_that_cannot_be_is_refused_in_its_field(command, vera, browser_of, read, first_line):
    sent = f"?sql=SELECT+1&format=auto&first_line={first_line}"
    assert 'id="id_first_line_error"' in read(browser_of(vera), f"{AT}/commands/{command.pk}/search/{sent}")


def test_the_page_goes_on_where_it_ended(workspace, vera, browser_of, read):
    made = make_command(workspace, started_at=clock.now())
    print_it(made, b"".join(b"line %d\n" % n for n in range(150)))
    at = f"{AT}/commands/{made.pk}/search/"
    first = read(browser_of(vera), f"{at}?pattern=line&around=0")
    assert ("100 lines match." in first, 'data-n="100"' in first, 'data-n="101"' in first) == (True, True, False)
    further = first.partition('<a href="?pattern=')[2].partition('"')[0].replace("&amp;", "&")
    second = read(browser_of(vera), f"{at}?pattern={further}")
    assert ("50 lines match." in second, 'data-n="100"' in second, 'data-n="150"' in second) == (True, False, True)
    assert "Show the next ones" not in second


def test_a_file_of_a_snapshot_is_searched_and_asked_on_its_page(files, vera, mallory, browser_of, read):
    browser = browser_of(vera)
    assert f'href="{AT}/files/search/?at=1&amp;path=data/sizes.jsonl"' in read(
        browser, f"{AT}/files/?at=1&path=data/sizes.jsonl"
    )
    at = f"{AT}/files/search/?at=1&quoted=data/sizes.jsonl"
    assert "1 line matches." in read(browser, f"{at}&pattern=4&around=2")
    assert "1 line matches." in read(browser, f"{at}&pattern=4")
    assert "1 row. The table has 2." in " ".join(
        read(browser, f"{at}&sql=SELECT+1+FROM+file+LIMIT+1&format=auto&first_line=1").split()
    )
    read(browser_of(mallory), f"{at}&pattern=4&around=2", 404)
