"""Twenty planted values, used by a set-up, commands, a terminal and a gated action; then every byte is searched.

The product is the session's own, so what other tests made of it is searched as well.
"""

import base64
import errno
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import uuid
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from tests.workspaces.secrets.conftest import Person
from workspaces.store import blocks
from workspaces.store.sealing import Keys

TAG = uuid.uuid4().hex[:6]


def _values() -> dict[str, str]:
    chance = random.Random(TAG)

    def word(size, letters="abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"):
        return "".join(chance.choices(letters, k=size))

    shapes = [
        word(20),
        word(8),
        f"päß-{word(12)}-日本",
        f"two words {word(10)} and more",
        f"-----BEGIN KEY-----\n{word(64)}\n{word(64)}\n-----END KEY-----\n",
        f'it\'s "{word(12)}" `quoted` $HOME \\ end',
        json.dumps({"token": word(24), "n": [1, None]}),
        f"https://user:{word(16)}@example.org/a?b=c&d=%20e#f",
        base64.b64encode(word(30).encode()).decode(),
        word(4000),
    ]
    more = [word(8), f"\t{word(12)}\n", f"ünïcödé {word(9)}", f"{word(40)}==", f"'; rm -rf {word(9)} #"]
    more += [f"Bearer {word(33)}", f"{word(10)}\r{word(10)}", f"<b>{word(12)}</b>&amp;", f"%{word(10)}+/", word(600)]
    shapes += more
    return {f"CANARY_{TAG}_{number:02}".upper(): value for number, value in enumerate(shapes)}


VALUES = _values()
OF_SETUP = list(VALUES)[::2]  # the others are the agent's


def forms(value: str) -> set[bytes]:
    """As this test knows them; the product's own list is not asked."""
    raw = value.encode()
    found = {raw, raw.replace(b"\n", b"\r\n"), json.dumps(value)[1:-1].encode(), quote(value, safe="").encode()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw + b"\0\0\0")
        found.add(encoded[4 if before else 0 : 4 * ((before + len(raw)) // 3)][:76])
    return {form for form in found if len(form) >= 8}


PIECE, OVERLAP = 8 << 20, 20_000


class Checker:
    """`search(where, bytes)` notes each canary that it sees; pieces overlap, so that a border hides nothing."""

    def __init__(self):
        pairs = [(form, name) for name, value in VALUES.items() for form in forms(value)]
        self._parts = []
        for at in range(0, len(pairs), 32):
            part = pairs[at : at + 32]
            searcher = BytesAhoCorasick([form for form, _ in part], matchkind=MatchKind.LeftmostLongest)
            self._parts.append((searcher, [name for _, name in part]))
        self.found: list[tuple[str, str]] = []
        self.searched = 0

    def search(self, where, data: bytes):
        self.searched += len(data)
        for searcher, names in self._parts:
            hits = {names[form] for form, _, _ in searcher.find_matches_as_indexes(data)}
            self.found += [(str(where), name) for name in sorted(hits)]

    def stream(self, where, file, most: int = sys.maxsize):
        before = b""
        while piece := file.read(min(PIECE, most)):
            most -= len(piece)
            self.search(where, before + piece)
            before = (before + piece)[-OVERLAP:]

    def file(self, path: Path):
        """Holes are skipped, which guests' disks mostly are: they read as zeros, and no value holds one."""
        with open(path, "rb", buffering=0) as opened:
            end = 0
            while True:
                try:
                    start = os.lseek(opened.fileno(), end, os.SEEK_DATA)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    return  # nothing but a hole follows, or nothing at all
                end = os.lseek(opened.fileno(), start, os.SEEK_HOLE)
                os.lseek(opened.fileno(), start, os.SEEK_SET)
                self.stream(path, opened, end - start)


class Searched:
    """A file whose bytes are searched as somebody reads them."""

    def __init__(self, checker: Checker, file):
        self._checker, self._file, self._before = checker, file, b""
        self.where = ""

    def read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self._checker.search(self.where, self._before + piece)
        self._before = (self._before + piece)[-OVERLAP:]
        return piece


def search_tar(checker: Checker, file) -> set[str]:
    """Search a tar as it is, and not its members: its headers too, and no holes. The names of its members."""
    members = set()
    searched = Searched(checker, file)
    with tarfile.open(fileobj=searched, mode="r|", bufsize=PIECE) as tar:
        for member in tar:
            members.add(member.name)
            searched.where = f"behind {member.name}"
    while searched.read(PIECE):
        pass
    return members


PRINT = r"""
for name in $(compgen -e | grep ^CANARY_@TAG@_); do
  printf '%s: ' $name; printf %s "${!name}" | sha256sum
  echo "<${!name}>"; printf %s "${!name}" | base64; printf x%s "${!name}" | base64 -w0; echo
  printf %s "${!name}" > /tmp/scratch; cat /tmp/scratch; echo; rm /tmp/scratch
  echo "${!name}" >&2
done
python3 -c 'if True:
  import json, os, urllib.parse
  for name, value in os.environ.items():
    if name.startswith("CANARY_"):
      print(json.dumps(value), urllib.parse.quote(value))'
""".replace("@TAG@", TAG.upper())
SETUP = PRINT + 'printf %s "${!CANARY_*}" > names.txt; printf x%s "$CANARY_@TAG@_00" > ~/.netrc\n'.replace(
    "@TAG@", TAG.upper()
)


class Story:
    """What was done, and where what it left can be looked at."""


@pytest.fixture(scope="module")
def story(product, desk):
    told = Story()
    told.lead = lead = Person.named(product, "carla-of-canaries", "lead")
    told.product, told.desk = product, desk
    for name, value in VALUES.items():
        assert f"{name} is set." in lead.set_secret(name, "setup" if name in OF_SETUP else "agent", value)
    names = {"setup_secrets": " ".join(OF_SETUP), "agent_secrets": " ".join(set(VALUES) - set(OF_SETUP))}
    name = f"canaries-{TAG}"
    lead.environment(name, setup=SETUP, **names)
    lead.environment(f"{name}-bad", setup=SETUP + 'exit "$CANARY_@TAG@_02"'.replace("@TAG@", TAG.upper()), **names)
    told.key = desk.create(name, environment=name)["key"]
    told.failed = desk.create(f"{name}-bad", environment=f"{name}-bad")
    told.output = desk.run(told.key, f"bash <<'E'\n{PRINT}\nE")
    # Programs that have values in their arguments and their environment, while everything is searched.
    left = (
        'for name in $(compgen -e | grep ^CANARY_); do (exec -a "x ${!name}" sleep 600) & done; exec 3< held; sleep 600'
    )
    desk.call("PUT", f"/workspaces/{told.key}/files/held", b"held", expect=201)
    told.running = desk.post(f"/workspaces/{told.key}/commands", {"command": left}).json["id"]
    told.terminal = desk.post(f"/workspaces/{told.key}/terminals", {"argv": ["bash", "-c", PRINT + "sleep 600"]}).json[
        "id"
    ]
    first = f"CANARY_{TAG.upper()}_01"
    asked = {"tool": "Bash", "arguments": {"command": f'echo "${first}" | tee /dev/stderr'}, "mode": "broker"}
    told.action = desk.post("/actions", asked | {"workspace": told.key}, headers=[("Idempotency-Key", TAG)]).json
    hook = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "session_id": TAG, "cwd": "/workspace"}
    product.post("/hooks/claude-code", desk.token, hook | {"tool_input": {"command": "pwd"}})
    force_errors(told, first)
    number = desk.post(f"/workspaces/{told.key}/snapshots").json["number"]
    desk.post(f"/workspaces/{told.key}/snapshots/{number}/restore", {}, 202)  # names who holds a file
    desk.settled(told.key)
    told.number = number
    return told


def force_errors(told, first):
    """Refusals and errors of every kind, with a value in what was sent."""
    lead, product, value = told.lead, told.product, VALUES[first]
    address = lead.address_of(first)
    lead.submit(address, value=value, expires_at="never")
    lead.submit(address, value=value, expires_at="2001-01-01T00:00")
    lead.submit(address, value=value + "\0")
    lead.submit(address, value=value * 3000)
    lead.set_secret(first, "agent", value)  # taken
    lead.set_secret("not a name", "agent", value)
    lead.submit("/secrets/new/", team="nobody", name=first, scope="agent", value=value)
    told.desk.run(told.key, f'"${first}"', expect_exit=127)  # the shell names what it did not find
    told.desk.run(told.key, f'cd "${first}"; ls "${first}"; python3 -c "raise SystemExit(open(\'${first}\'))"', 1)
    product.get("/no/such/page")


def test_the_programs_had_them(story):
    for name, value in VALUES.items():
        line = f"{name}: {hashlib.sha256(value.encode()).hexdigest()}"
        if name not in OF_SETUP:
            assert line.encode() in story.output
            assert story.output.count(f"[secret {name}]".encode()) >= 6, name
        assert (line in story.failed["reason"]) <= (name in OF_SETUP)
    assert "[secret CANARY_" in story.failed["reason"]


def test_the_checker_finds_what_is_there(tmp_path):
    checker = Checker()
    for name, value in VALUES.items():
        for form in forms(value):
            (tmp_path / "file").write_bytes(os.urandom(5000) + form + os.urandom(5000))
            checker.found.clear()
            checker.file(tmp_path / "file")
            assert name in {found for _, found in checker.found}, (name, form[:60])


def test_the_checker_finds_what_lies_between_holes_and_in_a_tar(tmp_path):
    value = next(iter(VALUES.values())).encode()
    with open(tmp_path / "file", "wb") as file:
        file.truncate(64 << 20)
        file.seek((32 << 20) - 5)
        file.write(value)
    subprocess.run(["tar", "-C", str(tmp_path), "--sparse", "-cf", str(tmp_path / "tar"), "file"], check=True)
    holed, packed = Checker(), Checker()
    holed.file(tmp_path / "file")
    with open(tmp_path / "tar", "rb") as tar:
        assert search_tar(packed, tar) == {"file"}
    for checker in (holed, packed):
        assert {name for _, name in checker.found} == {next(iter(VALUES))}
        assert checker.searched < 1 << 20


def test_no_process_of_ours_shows_them(story):
    checker, workload, own = Checker(), Checker(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = len(re.search(r"NSpid:(.*)", (folder / "status").read_text()).group(1).split()) > 1
            shown = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except (OSError, AttributeError):
            continue
        own += not inside
        for data in shown:
            (workload if inside else checker).search(folder, data)
    assert (checker.found, own > 5) == ([], True)
    # The programs themselves do have them, and only those of the agent.
    assert {name for _, name in workload.found} == set(VALUES) - set(OF_SETUP)


def test_no_file_holds_them(story):
    checker, product = Checker(), story.product
    for top in (product.home, product.runtime):
        for at, folders, files in os.walk(top):
            # A tree and a home are the programs' own; what is kept of them is in the stores.
            if Path(at).parent.parent.name == "workspaces":
                folders[:] = [name for name in folders if name not in ("tree", "home")]
            for name in files:
                path = Path(at, name)
                if path.is_file() and not path.is_symlink():
                    checker.file(path)
    assert checker.found == []
    assert checker.searched > 1_000_000
    names = {path.name for path in product.home.glob("workspaces/*/programs/*/*")}
    assert {"spec.json", "output", "exit.json", "claim"} <= names


def test_no_store_holds_them(story):
    checker = Checker()
    packs = sorted(story.product.home.glob("stores/*/packs/*.pack"))
    for pack in packs:
        data = pack.read_bytes()
        at = 0
        while at < len(data):
            info = blocks.read_header(data[at : at + blocks.HEADER.size], str(pack))
            checker.search(pack, blocks.payload(memoryview(data)[at : at + info.length], info, str(pack), Keys()))
            at += info.length
    assert (bool(packs), checker.found) == (True, [])


def test_no_page_no_answer_and_no_log_shows_them(story):
    checker, desk, lead, key = Checker(), story.desk, story.lead, story.key
    checker.search("log", story.product.log.encode())
    at = f"/workspaces/{key}"
    answers = [at, f"{at}/snapshots", f"{at}/snapshots/{story.number}/manifest", f"{at}/terminals", "/environments"]
    answers += [f"{at}/snapshots/{story.number}/archive", f"{at}/patch?from=1&to={story.number}", "/actions"]
    answers += [f"/commands/{story.running}", f"/actions/{story.action['id']}", f"/workspaces/{story.failed['key']}"]
    for path in answers:
        checker.search(path, desk.get(path).body)
    after = 0
    while events := desk.get(f"/events?after={after}").json["events"]:
        checker.search("events", json.dumps(events, ensure_ascii=False).encode())
        after = events[-1]["id"]
    page = f"/w/main/{key}"
    for path in (
        *(f"{page}/{tab}" for tab in ("", "changes/", "files/", "terminals/", "checks/", "snapshots/")),
        f"{page}/commands/{story.running}/",
        f"{page}/terminals/{story.terminal}/recording/",
        f"{page}/terminals/{story.terminal}/cast/",
        f"{page}/terminals/{story.terminal}/log/",
        f"/w/main/{story.failed['key']}/",
        *("/secrets/", lead.address_of(next(iter(VALUES))), "/environments/", "/log/", "/log/export/", "/", "/status/"),
    ):
        lead.get(path)
    for text in lead.pages:
        checker.search("pages", text.encode())
    assert checker.found == []
    recorded = lead.get(f"{page}/terminals/{story.terminal}/log/")
    assert recorded.count("[secret CANARY_") > 50


def test_no_backup_holds_them(story, tmp_path):
    done = story.product.manage("backup", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    checker = Checker()
    checker.search("said", (done.stdout + done.stderr).encode())
    checker.file(tmp_path / "backup" / "database.sqlite3")
    with open(tmp_path / "backup" / "home.tar.zst", "rb") as packed:
        with zstandard.ZstdDecompressor().stream_reader(packed) as plain:
            members = search_tar(checker, plain)
    assert checker.found == []
    assert "keys/ring" in members


def test_nothing_of_them_is_left_when_the_programs_are_gone(story):
    """The ends of programs are written down as well: what a command left running, and how it was called."""
    story.desk.post(f"/workspaces/{story.key}/pause", {}, 202)
    assert story.desk.settled(story.key)["state"] == "paused"
    checker = Checker()
    for path in story.product.home.glob("workspaces/*/programs/*/exit.json"):
        checker.file(path)
    for path in (*story.product.home.glob("handrail.sqlite3*"), *story.product.home.glob("runner/*")):
        checker.file(path)
    checker.search("log", story.product.log.encode())
    assert checker.found == []
    assert subprocess.run(["pgrep", "-fc", f"CANARY_{TAG}"], capture_output=True, text=True).stdout.strip() == "0"
