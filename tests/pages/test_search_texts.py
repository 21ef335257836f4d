"""Search in long texts: recordings, files of snapshots, the log, messages and prompts; by page and by API."""

import pytest

from approvals.actions import questions_to_agents
from approvals.sessions import messages, prompts
from dashboard.people.access import caller_of
from dashboard.site import search, search_text
from workspaces.models import Workspace
from workspaces.programs import recordings
from workspaces.shim.recording import Recorder

from .conftest import PUSH, keep_tree, make_command, make_workspace


def print_it(program, output: bytes):
    folder = recordings.of(program).folder
    folder.mkdir(parents=True)
    recorder = Recorder(folder, 1 << 20)
    recorder.write(output)
    recorder.close()
    type(program).objects.filter(pk=program.pk).update(output_bytes=len(output))


def section(text: str, kind: str) -> str:
    """The part of the page with one kind of texts; "" if it has none."""
    return text.partition(f'<h2 id="found-{kind}">')[2].partition("</section>")[0]


@pytest.fixture
def files(workspace, team, tmp_path):
    """The workspace with other files in its first and in its newest snapshot."""
    first = keep_tree(team, tmp_path, {"src/cart.py": "def total():\n    return 'old sum'\n", ".git/secret": "total"})
    newest = keep_tree(team, tmp_path, {"src/cart.py": "def total():\n    return 'Grand Sum'\n"})
    workspace.snapshots.filter(number=1).update(tree=first)
    workspace.snapshots.filter(number=2).update(tree=newest)
    return workspace


def test_the_output_of_a_command_is_found_with_its_line_marked(workspace, alice, browser_of, read):
    command, other = make_command(workspace, "make test"), make_command(workspace, "make lint")
    print_it(command, b"collected\n\x1b[31mE  assert 10.004 == Total_Sum\x1b[0m\n")
    print_it(other, b"all fine\n")
    shown = section(read(browser_of(alice), "/search/?q=total_sum+ASSERT"), "outputs")
    assert f"/commands/{command.pk}/" in shown
    assert "E  <mark>assert</mark> 10.004 == <mark>Total_Sum</mark>" in shown.replace("E <mark>", "E  <mark>")
    assert f"/commands/{other.pk}/" not in shown


def test_files_of_now_and_of_a_chosen_snapshot_are_found(files, alice, browser_of, read):
    client = browser_of(alice)
    shown = section(read(client, "/search/?q=grand+sum"), "files")
    assert "src/cart.py:2" in shown
    assert "at=2&amp;quoted=src/cart.py" in shown.replace("%2F", "/")
    assert section(read(client, "/search/?q=old+sum"), "files") == ""
    assert "src/cart.py:2" in section(read(client, "/search/?q=old+sum&workspace=repo-task-1&at=1"), "files")
    assert "src/cart.py<" in section(read(client, "/search/?q=cart.py"), "files")
    page = client.get("/search/?q=grand+sum").content.decode()
    address = page.split('href="/w/payments/repo-task-1/files/')[1].split('"')[0].replace("&amp;", "&")
    assert "Grand Sum" in client.get(f"/w/payments/repo-task-1/files/{address}").content.decode()


def test_large_files_other_encodings_and_names_in_any_script_are_found(workspace, team, tmp_path, api, token_of, alice):
    (tmp_path / "utf16.txt").write_bytes("hello\nWorld CHANGED\n".encode("utf-16"))
    long = "".join(f"INSERTED {number}\n" for number in range(80_000))
    tree = keep_tree(team, tmp_path, {"big.txt": long, "ＷｉｄｅName": "x", "straße.txt": "Große ÄNDERUNG\n"})
    workspace.snapshots.filter(number=2).update(tree=tree)
    client = api(token_of(alice))

    def found(words):
        answer = client.get("/api/v1/search", {"q": words, "kind": "files"}).json()
        return [hit["title"] for hit in answer["hits"]], answer["not_all"]

    assert found("inserted 79999") == (["big.txt:80000"], [])
    assert found("world changed") == (["utf16.txt:2"], [])
    assert found("ｗｉｄｅname") == (["ＷｉｄｅName"], [])
    assert found("große änderung") == (["straße.txt:1"], [])


def test_what_is_not_searched_is_counted(
    workspace, team, tmp_path, alice, api, token_of, browser_of, read, monkeypatch
):
    monkeypatch.setattr(search_text, "MAX_FILE", 1000)
    (tmp_path / "image.bin").write_bytes(b"needle\0\1")
    tree = keep_tree(team, tmp_path, {"big.txt": "needle " * 1000, "small.txt": "hay"})
    workspace.snapshots.filter(number=2).update(tree=tree)
    answer = api(token_of(alice)).get("/api/v1/search", {"q": "needle", "kind": "files"}).json()
    assert answer["hits"] == []
    assert answer["not_all"] == [
        {"kind": "files", "searched": 1, "total": 1, "back_to": None, "large": 1, "binary": 1, "elsewhere": 0}
    ]
    shown = read(browser_of(alice), "/search/?q=needle&kind=files")
    assert "because they are longer than 8 MB: 1" in shown
    assert "Files that are no text, searched only by their names: 1" in shown


def test_what_lies_inside_a_git_folder_is_not_searched(files, alice):
    limits = search_text.Limits(most=20, seconds=60)
    assert search_text.files(caller_of(alice), ["secret"], limits).hits == []


def test_messages_questions_prompts_and_the_log_are_found(ask, agent, bob, browser_of, read):
    pushed = ask(PUSH, session="s")
    prompts.save(agent, "s", "Finish the zebra crossing.")
    questions_to_agents.ask(pushed, caller=caller_of(bob), text="Is the zebra rebased?")
    messages.send(agent, session="", caller=caller_of(bob), text="Mind the zebra.")
    client = browser_of(bob)
    shown = section(read(client, "/search/?q=zebra"), "said")
    assert shown.count("<mark>zebra</mark>") == 3
    assert f'href="/actions/{pushed.pk}/"' in shown
    assert "Asked the agent about its call" in section(read(client, "/search/?q=question_asked"), "events")


def test_one_kind_is_asked_for_by_itself(files, alice, browser_of, read):
    text = read(browser_of(alice), "/search/?q=repo-task-1&kind=workspaces")
    assert 'href="/w/payments/repo-task-1/"' in text
    assert "found-events" not in text


def test_dates_narrow_all_kinds(files, alice, browser_of, read):
    client = browser_of(alice)
    assert section(read(client, "/search/?q=grand&until=2020-01-01"), "files") == ""
    assert section(read(client, "/search/?q=grand&since=2020-01-01"), "files") != ""


def test_a_scan_without_time_says_how_far_it_came(files, alice):
    scan = search_text.files(caller_of(alice), ["grand"], search_text.Limits(most=20, seconds=-1))
    assert (scan.hits, scan.searched, scan.total, scan.is_cut) == ([], 0, 1, True)


def test_the_page_says_how_far_it_came(files, alice, browser_of, read, monkeypatch):
    monkeypatch.setattr(search, "SECONDS", -1)
    shown = section(read(browser_of(alice), "/search/?q=grand"), "files")
    assert "Searched 0 of 1, the newest first" in shown
    assert "kind=files" in shown


def test_a_search_finds_no_text_of_another_team(files, ask, mallory, browser_of, read):
    command = make_command(files, "true")
    print_it(command, b"zebra\n")
    ask(PUSH)
    client = browser_of(mallory)
    for words in ("zebra", "grand", "cart.py", "action.submitted"):
        assert "No results." in read(client, f"/search/?q={words}"), words


def test_markup_in_what_was_found_is_text(workspace, alice, browser_of):
    command = make_command(workspace, "true")
    print_it(command, b"<b>zebra</b> <script>\n")
    text = browser_of(alice).get("/search/?q=zebra").content.decode()
    assert "&lt;b&gt;<mark>zebra</mark>&lt;/b&gt; &lt;script&gt;" in text


def test_more_workspaces_cost_no_more_queries(files, team, agent, alice, browser_of, django_assert_max_num_queries):
    client = browser_of(alice)
    with django_assert_max_num_queries(40) as few:
        client.get("/search/?q=grand")
    tree = Workspace.objects.get(pk=files.pk).head.tree
    for number in range(5):
        made = make_workspace(team, agent, f"more-{number}")
        made.snapshots.update(tree=tree)
    with django_assert_max_num_queries(len(few)):
        client.get("/search/?q=grand")


def test_the_api_finds_the_same_for_people(files, ask, bob, agent_token, token_of, client):
    action = ask({"command": "git push origin grand"})
    headers = {"Authorization": f"Bearer {token_of(bob)}"}
    answer = client.get("/api/v1/search?q=grand", headers=headers).json()
    by_kind = {hit["kind"]: hit for hit in answer["hits"]}
    assert by_kind["files"]["line"] == "return 'Grand Sum'"
    assert by_kind["actions"]["url"] == f"/actions/{action.pk}/"
    only = client.get("/api/v1/search?q=grand&kind=files", headers=headers).json()
    assert {hit["kind"] for hit in only["hits"]} == {"files"}
    assert client.get("/api/v1/search?q=grand&kind=nonsense", headers=headers).status_code == 422
    refused = client.get("/api/v1/search?q=grand", headers={"Authorization": f"Bearer {agent_token}"})
    assert refused.status_code == 403


def test_files_go_on_where_a_search_ended(team, workspace, tmp_path, alice, monkeypatch):
    """Inside a snapshot too."""
    tree = keep_tree(team, tmp_path, {f"src/{n}.py": "zebra\n" for n in range(5)})
    workspace.snapshots.filter(number=2).update(tree=tree)
    found, before = [], ""
    while True:
        limits = search_text.Limits(most=2, seconds=60, before=before)
        scan = search_text.files(caller_of(alice), ["zebra"], limits)
        found += [hit.title for hit in scan.hits]
        if not (before := scan.cursor):
            break
    assert found == [f"src/{n}.py:1" for n in range(5)]


def test_recordings_and_messages_go_on_where_a_search_ended(workspace, agent, ask, bob):
    for number in range(5):
        print_it(make_command(workspace, f"make {number}"), b"a zebra\n")
        messages.send(agent, session="", caller=caller_of(bob), text=f"zebra {number}")
    questions_to_agents.ask(ask(PUSH), caller=caller_of(bob), text="zebra?")
    for search_in, number in ((search_text.outputs, 5), (search_text.search_conversations, 6)):
        found, before = [], ""
        while True:
            limits = search_text.Limits(most=2, seconds=60, before=before)
            scan = search_in(caller_of(bob), ["zebra"], limits)
            found += [(hit.at, hit.title, hit.line) for hit in scan.hits]
            if not (before := scan.cursor):
                break
        assert (len(found), len(set(found))) == (number, number)
        assert [at for at, *_ in found] == sorted((at for at, *_ in found), reverse=True)
