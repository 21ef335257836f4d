"""Who changed a file and each of its lines, from outside: the pages and the API over real snapshots."""

import pytest

from tests.approvals.evidence.conftest import Person, text_of
from tests.support.desk import Desk

from ..actions.test_bound_files import consume
from ..broker.test_broker import Brokered


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


@pytest.fixture(scope="module")
def lead(product):
    return Person(product, "tracing-lead", "lead")


@pytest.fixture(scope="module")
def read(product, desk, lead):
    """`read("blame", "a.py")`: the API's answer to a lead."""
    people = Desk(product, lead.token)
    return lambda what, path, query="", expect=200: people.get(f"/workspaces/{desk.key}/{what}/{path}{query}", expect)


def lines_of(blame, content: str) -> list[tuple]:
    """(line, title of what it comes from) for each line."""
    written = content.splitlines()
    return [
        (line, run["act"] and run["act"]["title"])
        for run in blame["lines"]
        for line in written[run["first"] - 1 : run["last"]]
    ]


def did(desk, tool, **arguments):
    asked = desk.ask(tool, arguments)
    done = desk.over(desk.decide(asked) if asked["status"] == "pending" else asked)
    assert done["status"] == "succeeded", done
    return done


def test_each_line_names_the_action_and_who_approved_it(desk, read, lead):
    wrote = did(desk, "Write", file_path="story.py", content="one\ntwo\nthree\n")
    edited = did(desk, "Edit", file_path="story.py", old_string="two", new_string="TWO\nand more")
    ran = did(desk, "Bash", command="echo four >> story.py; git push origin main || true")
    did(desk, "Write", file_path="other.py", content="nothing of this\n")
    blame = read("blame", "story.py").json
    assert lines_of(blame, "one\nTWO\nand more\nthree\nfour\n") == [
        ("one", wrote["title"]),
        ("TWO", edited["title"]),
        ("and more", edited["title"]),
        ("three", wrote["title"]),
        ("four", ran["title"]),
    ]
    acts = {run["act"]["id"]: run["act"] for run in blame["lines"]}
    assert (acts[ran["id"]]["approval"], acts[ran["id"]]["approver"]) == ("person", "ruth")
    assert (acts[wrote["id"]]["approval"], acts[wrote["id"]]["by"]) == ("policy", "broker-tests")
    page = lead.get(f"/w/{desk.ok('GET', desk.path)['team']}/{desk.key}/files/blame/?path=story.py")
    words = " ".join(text_of(page).split())
    assert f"A-{ran['number']} {ran['title']} broker-tests · approved by ruth" in words
    assert f"A-{edited['number']} {edited['title']} broker-tests · auto-approved by the policy" in words


def test_the_history_of_a_file_lists_its_versions_with_what_made_them(desk, read, lead):
    wrote = did(desk, "Write", file_path="told.txt", content="a\n")
    did(desk, "Write", file_path="elsewhere.txt", content="x\n")
    edited = did(desk, "Edit", file_path="told.txt", old_string="a", new_string="a\nb")
    versions = read("file-history", "told.txt").json["versions"]
    assert [(v["kind"], v["additions"], v["deletions"], v["certain"]) for v in versions] == [
        ("modified", 1, 0, True),
        ("added", 1, 0, True),
    ]
    assert [[act["id"] for act in v["acts"]] for v in versions] == [[edited["id"]], [wrote["id"]]]
    assert versions[0]["snapshot"] is None
    page = lead.get(f"/w/{desk.ok('GET', desk.path)['team']}/{desk.key}/files/history/?path=told.txt")
    words = " ".join(text_of(page).split())
    assert f"Now A-{edited['number']}" in words
    assert words.index(edited["title"]) < words.index("· added") < words.index(wrote["title"])


def test_a_moved_file_keeps_its_history(desk, read):
    wrote = did(desk, "Write", file_path="before.txt", content="kept\n" * 3)
    moved = did(desk, "Bash", command="mv before.txt after.txt; git push || true")
    did(desk, "Write", file_path="closing.txt", content="x\n")
    versions = read("file-history", "after.txt").json["versions"]
    assert [(v["kind"], v["path"], v["old_path"]) for v in versions] == [
        ("renamed", "after.txt", "before.txt"),
        ("added", "before.txt", "before.txt"),
    ]
    assert [act["id"] for act in versions[0]["acts"]] == [moved["id"]]
    assert {run["act"]["id"] for run in read("blame", "after.txt").json["lines"]} == {wrote["id"]}


def test_edits_between_two_snapshots_are_told_apart(desk, read):
    """Retention deleted the snapshot between them, so their order and arguments have to tell."""
    did(desk, "Write", file_path="both.txt", content="1\n2\n3\n")
    first = did(desk, "Edit", file_path="both.txt", old_string="1", new_string="one")
    second = did(desk, "Edit", file_path="both.txt", old_string="3", new_string="three")
    desk.product.shell(
        "from workspaces.models import Snapshot;"
        f"Snapshot.objects.get(workspace__key='{desk.key}', number={second['snapshot_before']}).delete()"
    )
    blame = read("blame", "both.txt").json
    assert [act["id"] for act in blame["versions"][0]["acts"]] == [first["id"], second["id"]]
    assert [run["act"]["id"] for run in blame["lines"]][::2] == [first["id"], second["id"]]


def test_a_change_without_an_action_is_told_apart(desk, read):
    did(desk, "Write", file_path="twice.txt", content="1\n2\n3\n")
    desk.ok("POST", f"{desk.path}/snapshots", {}, expect=201)
    desk.put("twice.txt", b"1\nby hand\n3\n")
    desk.put("unrelated.txt", b"x")
    blame = read("blame", "twice.txt").json
    assert [(run["first"], run["last"], run["act"]["kind"]) for run in blame["lines"]] == [
        (1, 1, "action"),
        (2, 2, "event"),
        (3, 3, "action"),
    ]


def test_what_cannot_be_told_for_certain_is_listed_as_possible(desk, read, lead):
    desk.put("shared.txt", b"old\n")
    desk.ok("POST", f"{desk.path}/snapshots", {}, expect=201)
    agent = Desk(desk.product, desk.agent)
    agent.run(desk.key, "sh -c 'echo new >> shared.txt'")
    agent.run(desk.key, "sh -c 'echo hello'")
    [version, *_] = read("file-history", "shared.txt").json["versions"]
    assert (version["certain"], [act["kind"] for act in version["acts"]]) == (False, ["command", "command"])
    blame = read("blame", "shared.txt").json
    assert [run["act"] and run["act"]["kind"] for run in blame["lines"]] == ["event", None]
    page = lead.get(f"/w/{desk.ok('GET', desk.path)['team']}/{desk.key}/files/blame/?path=shared.txt")
    assert "One or more of these:" in text_of(page)


def test_what_only_reads_wrote_no_line(desk, read):
    desk.put("seen.txt", b"old\n")
    desk.ok("POST", f"{desk.path}/snapshots", {}, expect=201)
    Desk(desk.product, desk.agent).run(desk.key, "sh -c 'echo new >> seen.txt'")
    for tool, arguments in (("Read", {"file_path": "seen.txt"}), ("TodoWrite", {"todos": []})):
        asked = desk.ask(tool, arguments, mode="gate")
        assert consume(desk, asked)["status"] == "running"
    [version, *_] = read("file-history", "seen.txt").json["versions"]
    assert (version["certain"], [act["kind"] for act in version["acts"]]) == (True, ["command"])


def test_a_restored_file_comes_from_the_restore(desk, read):
    desk.put("back.txt", b"good\n")
    number = desk.ok("POST", f"{desk.path}/snapshots", {}, expect=201)["number"]
    desk.put("back.txt", b"bad\n")
    lead_token = desk.product.person_token("tracing-lead", "lead")
    desk.ok("POST", f"{desk.path}/snapshots/{number}/restore", {}, token=lead_token, expect=202)
    desk.settles("ready")
    [version, *_] = read("file-history", "back.txt").json["versions"]
    assert [(act["kind"], act["by"]) for act in version["acts"]] == [("snapshot", "tracing-lead")]


def test_what_has_no_lines_is_refused(desk, read):
    desk.put("binary", b"\0\1\2")
    assert "not text" in read("blame", "binary", expect=409).json["detail"]
    assert read("file-history", "never-there", expect=404).status == 404
    desk.put("folder/in", b"x")
    assert "folder" in read("file-history", "folder", expect=409).json["detail"]
    assert read("file-history", "binary", "?at=99999", expect=404).status == 404
