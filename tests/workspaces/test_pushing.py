"""A push says what happened to the branch and what the host said: real git, bare repositories, git http-backend."""

import os
import subprocess
import threading
import uuid
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from tests.support.code_host import TOKEN, CodeHost
from workspaces.host import paths
from workspaces.models import ReasonCode
from workspaces.provisioning.git import addresses, cloning, output, pushing
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.refusals import Refused
from workspaces.runner.steps import push as push_step

NAMED = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@x"))
}
HOOK = r"""#!/bin/sh
read old new ref
case $ref in *protected*)
  printf 'POLICY: \033[31mprotected\033[0m needs a ticket\n' >&2
  printf '\302\23331mask \342\200\256release@example.org, not in %s\n' "$PWD" >&2
  exit 1
esac
"""


def git(folder, *args, check=True) -> str:
    env = os.environ | NAMED
    done = subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True, check=check)
    return done.stdout.strip()


def commit(folder, text: str) -> str:
    (folder / "file").write_text(f"{text}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def work(tmp_path):
    """A clone that stands for the workspace."""
    return _work(tmp_path)


def _work(tmp_path, *options):
    git(tmp_path, "init", "-q", "-b", "trunk", *options, "work")
    commit(tmp_path / "work", "first")
    return tmp_path / "work"


@pytest.fixture
def up(tmp_path, work, settings):
    """The bare repository from which it came."""
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path]
    return _up(tmp_path, work)


def _up(tmp_path, work):
    (tmp_path / "served" / "team").mkdir(parents=True)
    git(tmp_path, "clone", "-q", "--bare", work, "served/team/shop.git")
    return tmp_path / "served" / "team" / "shop.git"


class Sending:
    """Pushes the HEAD of a clone to a branch of its source, step by step."""

    def __init__(self, tmp_path, work, up):
        self.tmp_path, self.work, self.up, self.count = tmp_path, work, up, 0

    def begin(self, branch, *, address="", credential=NONE) -> pushing.Push:
        self.count += 1
        scratch = self.tmp_path / f"scratch-{self.count}"
        scratch.mkdir()
        git(self.work, "bundle", "create", "-q", str(scratch / "bundle"), "HEAD")
        sending = pushing.Push(scratch, addresses.check_git(address or str(self.up)), branch, credential)
        sending.unpack()
        sending.fetch_branches()
        return sending

    def __call__(self, branch, **how) -> pushing.Pushed:
        return self.begin(branch, **how).send()

    def fails(self, branch, **how) -> CloneFailed:
        with pytest.raises(CloneFailed) as failed:
            self(branch, **how)
        assert str(self.tmp_path) not in f"{failed.value} {failed.value.more}"
        return failed.value


@pytest.fixture
def push(tmp_path, work, up):
    return Sending(tmp_path, work, up)


def elsewhere(up, branch, *texts) -> list[str]:
    """Commit to a branch of the repository from another clone; return the commits."""
    other = up.parent / f"other-{branch.replace('/', '-')}"
    git(up.parent, "clone", "-q", "-b", branch, str(up), str(other))
    made = [commit(other, text) for text in texts]
    git(other, "push", "-q", "origin", f"HEAD:{branch}")
    return made


def test_a_push_names_the_old_and_the_new_commit(push, work, up):
    first, second = git(work, "rev-parse", "HEAD"), commit(work, "second")
    assert push("agent/work").as_json == {"branch": "agent/work", "sha": second, "from": ""}
    third = commit(work, "third")
    assert push("agent/work").as_json == {"branch": "agent/work", "sha": third, "from": second}
    assert push("trunk").as_json == {"branch": "trunk", "sha": third, "from": first}
    assert push("trunk").as_json == {"branch": "trunk", "sha": third, "from": third}
    assert {git(up, "rev-parse", name) for name in ("agent/work", "trunk")} == {third}


def test_a_branch_that_moved_on_is_named_with_its_new_commits(push, work, up):
    commit(work, "here")
    missing = elsewhere(up, "trunk", "one \x1b[1mbold", "two", "three", "four")
    failed = push.fails("trunk")
    assert (failed.code, failed.more["missing_count"]) == ("behind", 4)
    assert failed.more["missing"] == [
        {"sha": sha, "subject": text}
        for sha, text in zip(reversed(missing), ("four", "three", "two", "one bold"), strict=True)
    ]
    assert f"trunk has 4 commits that are not here ({missing[3][:7]} four, " in str(failed)
    assert str(failed).endswith(" and 1 more).")
    assert git(up, "rev-parse", "trunk") == missing[3]


def test_a_commit_that_was_amended_after_its_push_is_named(push, work, up):
    before = commit(work, "work")
    push("agent/work")
    git(work, "commit", "-q", "--amend", "-m", "better")
    failed = push.fails("agent/work")
    assert (failed.code, failed.more["missing"]) == ("behind", [{"sha": before, "subject": "work"}])
    assert "agent/work has 1 commit that is not here" in str(failed)


def test_the_output_of_a_hosts_hook_arrives_whole_and_clean(push, work, up):
    (up / "hooks" / "pre-receive").write_text(HOOK)
    (up / "hooks" / "pre-receive").chmod(0o755)
    commit(work, "second")
    failed = push.fails("protected-x")
    told = ["POLICY: protected needs a ticket", "ask release@example.org, not in …"]
    assert (failed.code, failed.more["remote"]) == ("refused", told)
    assert str(failed) == f"The repository refused protected-x (pre-receive hook declined): {' '.join(told)}"
    assert push("free").before == ""


@pytest.mark.parametrize(("is_there", "wanted"), [("agent", "agent/work"), ("agent/work/deep", "agent/work")])
def test_a_name_that_is_a_folder_of_another_branch_is_refused(push, work, up, is_there, wanted):
    push(is_there)
    commit(work, "second")
    failed = push.fails(wanted)
    assert failed.code == "refused"
    assert failed.more["remote"]
    assert f"The branch {is_there} is there, and git can't keep both names." in str(failed)


def test_the_second_of_two_concurrent_pushes_is_behind(push, work, up):
    commit(work, "mine")
    sending = push.begin("trunk")
    theirs = elsewhere(up, "trunk", "theirs")
    with pytest.raises(CloneFailed) as failed:
        sending.send()
    assert (failed.value.code, failed.value.more["missing"]) == ("behind", [{"sha": theirs[0], "subject": "theirs"}])
    assert git(up, "rev-parse", "trunk") == theirs[0]


def test_a_push_names_the_commit_to_which_the_branch_moved_meanwhile(push, work, up):
    second, third = commit(work, "second"), commit(work, "third")
    sending = push.begin("trunk")
    git(work, "push", "-q", str(up), f"{second}:trunk")
    assert sending.send().as_json == {"branch": "trunk", "sha": third, "from": second}


def test_what_a_killed_push_left_is_found(push, work, up):
    first, second = git(work, "rev-parse", "HEAD"), commit(work, "second")
    finding = push.begin("trunk")
    assert (finding.find(second, first), finding.before) == (False, first)
    push("trunk")
    assert finding.find(second, first)
    later = elsewhere(up, "trunk", "later")
    assert (finding.find(second, first), finding.before) == (True, later[0])
    git(up, "update-ref", "refs/heads/trunk", git(up, "commit-tree", "-m", "x", f"{first}^{{tree}}"))
    assert not finding.find(second, first)
    assert not push.begin("other").find(second, "")


def test_a_repository_of_sha256_is_pushed_to(tmp_path, settings):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path]
    work = _work(tmp_path, "--object-format=sha256")
    up = _up(tmp_path, work)
    sha = commit(work, "second")
    assert len(sha) == 64
    pushed = Sending(tmp_path, work, up)("trunk")
    assert (pushed.sha, pushed.before, git(up, "rev-parse", "trunk")) == (sha, git(work, "rev-parse", "HEAD~1"), sha)


def test_a_shallow_workspace_is_pushed_where_the_rest_of_its_history_is(push, work, up, tmp_path):
    commit(work, "second")
    push("trunk")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{up}", "shallow")
    shallow = tmp_path / "shallow"
    sha = commit(shallow, "third")
    push.work = shallow
    assert push("trunk").sha == sha
    assert git(up, "rev-list", "--count", "trunk") == "3"
    git(tmp_path, "init", "-q", "--bare", "other.git")
    failed = push.fails("trunk", address=str(tmp_path / "other.git"))
    assert (failed.code, "only a part of the history" in str(failed)) == ("refused", True)


WHO = "T <t@x> 1100000000 +0000"
ODD = {
    "a time zone": ("T <t@x> 1100000000 +051800", WHO),
    "no space before the time": ("T <t@x>1100000000 +0000", WHO),
    "a time of long ago": (WHO, "T <t@x> 01100000000 +0000"),
    "no time": ("T <t@x> then +0000", WHO),
    "no name": ("<t@x> 1100000000 +0000", WHO),
    "no address": ("T 1100000000 +0000", WHO),
    "an odd address": (WHO, "T <t <x> 1100000000 +0000"),
    "no space before the address": ("T<t@x> 1100000000 +0000", WHO),
}


def literally(work, kind: str, data: bytes) -> str:
    asked = ["git", "hash-object", "--literally", "-w", "-t", kind, "--stdin"]
    return subprocess.run(asked, cwd=work, input=data, capture_output=True, check=True).stdout.decode().strip()


def committed(work, tree: str, author=WHO, committer=WHO) -> str:
    parent = git(work, "rev-parse", "HEAD")
    text = f"tree {tree}\nparent {parent}\nauthor {author}\ncommitter {committer}\n\nodd\n"
    sha = literally(work, "commit", text.encode())
    git(work, "update-ref", "HEAD", sha)
    return sha


def fetched(tmp_path, work) -> str:
    """Fetch HEAD as a push unpacks it, but over the protocol: older gits check no bundle. Return its complaint."""
    git(tmp_path, "init", "-q", "--bare", "fetched")
    what = ("fetch", "-q", f"file://{work}", "HEAD")
    done = subprocess.run(["git", *pushing.CHECKED, *what], cwd=tmp_path / "fetched", capture_output=True, text=True)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize("what", ODD)
def test_an_old_history_with_odd_commits_is_pushed(push, work, up, tmp_path, what):
    sha = committed(work, git(work, "rev-parse", "HEAD^{tree}"), *ODD[what])
    assert push("trunk").sha == sha
    assert git(up, "rev-parse", "trunk") == sha
    assert fetched(tmp_path, work) == ""


@pytest.mark.parametrize("mode", [b"0100644", b"0040000", b"100664"])
def test_modes_as_old_programs_wrote_them_are_pushed(push, work, up, tmp_path, mode):
    name = "HEAD^{tree}" if mode == b"0040000" else "HEAD:file"
    sha = committed(work, literally(work, "tree", mode + b" x\0" + bytes.fromhex(git(work, "rev-parse", name))))
    assert push("trunk").sha == sha
    assert fetched(tmp_path, work) == ""


@pytest.mark.parametrize("name", [b".git", b"..", b".GIT", b"a/b", b"git~1"])
def test_a_tree_with_a_harmful_name_is_refused_where_git_checks_objects(work, tmp_path, name):
    blob = bytes.fromhex(git(work, "rev-parse", "HEAD:file"))
    committed(work, literally(work, "tree", b"100644 " + name + b"\0" + blob))
    said = fetched(tmp_path, work)
    assert "fsck error" in said or "hasDot" in said or "fullPathname" in said


# Over HTTP ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def host(up, settings):
    settings.HANDRAIL_PRIVATE_SOURCES = True
    git(up, "config", "http.receivepack", "true")
    made = CodeHost("github", up.parent.parent, is_private=True)
    yield made
    made.close()


@pytest.fixture
def answer(settings):
    """`answer(status, headers, body)`: the address of a repository at a server that always answers so."""
    settings.HANDRAIL_PRIVATE_SOURCES = True
    servers = []

    def start(status, headers=(), body=b""):
        def reply(self):
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        methods = {"do_GET": reply, "do_POST": reply, "log_message": lambda *_: None}
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), type("Fixed", (BaseHTTPRequestHandler,), methods)))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/team/shop.git"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_missing_or_wrong_token_is_named(push, work, up, host):
    sha = commit(work, "second")
    address = f"{host.url}/team/shop.git"
    wanted = Credential("CODE_HOST_HERE", origin=host.url)
    failed = push.fails("agent/work", address=address, credential=wanted)
    assert (failed.code, failed.more) == ("token", {"secret": {"name": "CODE_HOST_HERE", "origin": host.url}})
    assert f"asks for credentials. A lead can set the secret CODE_HOST_HERE with the origin {host.url}" in str(failed)
    failed = push.fails("agent/work", address=address, credential=replace(wanted, token="wrong"))
    assert (failed.code, "refused the token in the secret CODE_HOST_HERE." in str(failed)) == ("token", True)
    assert git(up, "branch", "--list", "agent/*") == ""
    assert push("agent/work", address=address, credential=replace(wanted, token=TOKEN)).sha == sha


def test_an_empty_private_repository_is_no_web_page(host, tmp_path):
    git(tmp_path, "init", "-q", "--bare", "served/team/empty.git")
    (tmp_path / "target").mkdir()
    source = addresses.check_git(f"{host.url}/team/empty.git")
    assert cloning.clone(source, tmp_path / "target", credential=Credential("S", token=TOKEN)) == ""


SAYS = [("Content-Type", "text/plain")]
MOVED = [("Location", "http://user:pass@new.test/team/moved.git/info/refs?service=git-upload-pack")]


@pytest.mark.parametrize(
    ("status", "headers", "body", "secret", "code", "told"),
    [
        (403, SAYS, b"Only for members.\n", "S", "token", "It said: Only for members."),
        (403, SAYS, b"", "", "token", "asks for credentials."),
        (401, [], b"", "S", "token", "refused the token in the secret S."),
        (404, [], b"", "", "source", "There is no repository at http://127.0.0.1:"),
        (301, MOVED, b"", "", "source", "redirects to http://new.test/team/moved.git. Redirects are not followed"),
        (308, [("Location", "/else/shop.git/info/refs")], b"", "", "source", "/else/shop.git. Redirects"),
        (302, [], b"", "", "source", "redirects. Redirects are not followed"),
        (200, [("Content-Type", "text/html")], b"<p>\nHello</p>\n", "", "source", "it may be a web page"),
        (200, [("Content-Type", "text/html")], b"<p>Hello</p>", "", "source", "it may be a web page"),
        (500, [], b"", "", "source", "The requested URL returned error: 500"),
    ],
)  # fmt: skip
def test_other_answers_of_a_host_are_shown_for_push_and_clone(
    push, work, tmp_path, answer, status, headers, body, secret, code, told
):
    address = answer(status, headers, body)
    credential = Credential(secret, token="x") if secret else NONE
    failed = push.fails("agent/work", address=address, credential=credential)
    assert (failed.code, told in str(failed)) == (code, True), failed
    assert "pass@" not in str(failed)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(CloneFailed) as refused:
        cloning.clone(addresses.check_git(address), target, credential=credential)
    assert (refused.value.code, told in str(refused.value)) == (code, True), refused.value


def test_a_host_that_goes_away_leaves_a_push_uncertain(push, work, host):
    commit(work, "second")
    sending = push.begin("agent/work", address=f"{host.url}/team/shop.git", credential=Credential("S", token=TOKEN))
    host.close()
    with pytest.raises(CloneFailed) as failed:
        sending.send()
    assert failed.value.more == {"uncertain": True}
    host.server.server_close = host.server.shutdown = lambda: None


WAITS = "#!/bin/sh\nn=0\nwhile [ ! -e go ] && [ $n -lt 300 ]; do n=$((n+1)); sleep 0.1; done\n"


@pytest.fixture
def slow(push, work, up, host, monkeypatch):
    """A push to a host that goes on with it after the connection ended: until the file `go`, its hook waits."""
    (up / "hooks" / "pre-receive").write_text(WAITS)
    (up / "hooks" / "pre-receive").chmod(0o755)
    made = SimpleNamespace(looks=0, before=git(work, "rev-parse", "HEAD"), sha=commit(work, "second"), when={})

    def sleep(seconds):
        assert seconds == pushing.LOOK_SECONDS
        made.looks += 1
        made.when.get(made.looks, lambda: None)()

    def go():
        (up / "go").touch()
        for thread in host.at_work:
            thread.join()

    monkeypatch.setattr(pushing, "time", SimpleNamespace(sleep=sleep))
    made.go, made.address, made.credential = go, f"{host.url}/team/shop.git", Credential("S", token=TOKEN)
    made.begin = lambda branch: push.begin(branch, address=made.address, credential=made.credential)
    yield made
    go()


ENDS = pytest.mark.parametrize("answer_early", [-1, 504, 502, 408])


@ENDS
def test_a_push_that_a_host_takes_after_its_connection_ended_has_arrived(slow, host, answer_early):
    host.lets_go = answer_early
    slow.when[3] = slow.go
    assert slow.begin("trunk").send().as_json == {"branch": "trunk", "sha": slow.sha, "from": slow.before}
    assert slow.looks == 3


@ENDS
@pytest.mark.parametrize("branch", ["trunk", "agent/work"])
def test_a_push_that_a_host_may_still_be_taking_is_uncertain(slow, host, up, answer_early, branch):
    host.lets_go = answer_early
    with pytest.raises(CloneFailed) as failed:
        slow.begin(branch).send()
    assert (failed.value.more.get("uncertain"), slow.looks) == (True, pushing.LOOKS)
    at = f"still at {slow.before[:12]}" if branch == "trunk" else "not there yet"
    assert f"{branch} is {at}, but the source may still be taking the push." in str(failed.value)
    assert "look at the branch there before you push again" in str(failed.value)
    slow.go()
    assert git(up, "rev-parse", branch) == slow.sha


def test_a_push_whose_branch_others_moved_meanwhile_is_behind_or_has_arrived(slow, host, up, tmp_path):
    host.lets_go = 504
    other = git(up, "commit-tree", "-m", "theirs", "-p", slow.before, "trunk^{tree}")
    slow.when[2] = lambda: git(up, "update-ref", "refs/heads/trunk", other)
    with pytest.raises(CloneFailed) as failed:
        slow.begin("trunk").send()
    assert (failed.value.code, failed.value.more["missing"]) == ("behind", [{"sha": other, "subject": "theirs"}])
    assert "uncertain" not in failed.value.more
    slow.go()
    assert git(up, "rev-parse", "trunk") == other
    git(up, "update-ref", "refs/heads/trunk", slow.before)
    (up / "go").unlink()

    def on_top():
        slow.go()
        later = git(up, "commit-tree", "-m", "later", "-p", slow.sha, f"{slow.sha}^{{tree}}")
        git(up, "update-ref", "refs/heads/trunk", later)

    slow.looks, slow.when = 0, {1: on_top}
    assert slow.begin("trunk").send().sha == slow.sha


def test_a_host_that_takes_no_push_is_not_asked_again(slow, host, up):
    host.lets_go = 413
    slow.go()
    (up / "hooks" / "pre-receive").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(CloneFailed) as failed:
        slow.begin("trunk").send()
    assert (failed.value.more.get("uncertain"), slow.looks) == (None, 0)


def test_a_killed_push_that_a_host_may_still_be_taking_is_looked_for_again(slow, host, push):
    host.lets_go = -1
    with pytest.raises(CloneFailed):
        slow.begin("trunk").send()
    slow.looks, finding = 0, slow.begin("trunk")
    assert (finding.find(slow.sha, slow.before), finding.may_arrive(slow.before)) == (False, True)
    assert slow.looks == pushing.LOOKS
    slow.looks, slow.when = 0, {2: slow.go}
    assert (finding.find(slow.sha, slow.before), slow.looks) == (True, 2)
    local = push.begin("new")
    assert (local.find(slow.sha, ""), local.may_arrive("")) == (False, False)


@pytest.mark.django_db
def test_the_outcome_of_a_push_says_whether_it_may_still_arrive(slow, host, up, team, tmp_path, settings):
    settings.HANDRAIL_HOME = tmp_path / "home"
    host.lets_go = -1
    with pytest.raises(CloneFailed) as failed:
        slow.begin("trunk").send()
    words = push_step._not_pushed(failed.value)
    assert (words.more["uncertain"], "Nothing was pushed" in words.reason) == (True, False)

    async def thread(function, *args):
        return await sync_to_async(function)(*args)

    host.is_private = False
    progress = {"sha": slow.sha, "from": slow.before}
    operation = SimpleNamespace(pk=uuid.uuid4(), progress=progress)
    workspace = SimpleNamespace(pk=uuid.uuid4(), remote=slow.address, team=team)
    paths.folder_of(workspace.pk).mkdir(parents=True)
    job = SimpleNamespace(args={"branch": "trunk"}, operation=operation, workspace=workspace, thread=thread)
    find = async_to_sync(push_step.find_pushed)
    with pytest.raises(Refused) as unknown:
        find(job)
    assert (unknown.value.more, unknown.value.code) == ({"uncertain": True}, ReasonCode.RUNNER_STOPPED)
    assert "did not arrive" not in unknown.value.reason
    other = git(up, "commit-tree", "-m", "theirs", "-p", slow.before, "trunk^{tree}")
    git(up, "update-ref", "refs/heads/trunk", other)
    with pytest.raises(Refused, match=f"did not arrive: trunk is at {other[:12]}. Push again.") as refused:
        find(job)
    assert refused.value.more == {}


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x9b31mC1\x9b0m", "C1"),
        ("a\x00b\x07c\tz", "a b c z"),
        ("left \u202eright\u2069 \u200bzero", "left right zero"),
        ("x" * 600, "x" * 499 + "…"),
    ],
)
def test_words_of_a_host_are_cleaned(raw, clean):
    assert output.clean(raw) == clean


def test_the_lines_of_a_host_are_cut_and_its_progress_is_left_out(settings, tmp_path):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path]
    progress = "remote: Resolving deltas:  50% (1/2)\rremote: Resolving deltas: 100% (2/2), done.\n"
    many = "".join(f"remote: line {n}   \n" for n in range(90))
    lines = output.remote_lines(f"{progress}remote: \n{many}error: not the host's\n")
    assert (len(lines), lines[0], lines[-1]) == (output.MAX_LINES, "line 0", "… and 41 more lines")
    shown = f"remote: see https://x.test{tmp_path}/a and {tmp_path}/up.git/hooks/x, /docs/policy\n"
    assert output.remote_lines(shown) == [f"see https://x.test{tmp_path}/a and …, /docs/policy"]


def test_no_more_of_what_a_host_said_is_cleaned_than_could_be_shown(monkeypatch):
    cleaned, sub = [], output._ESCAPES.sub

    class Counted:
        def sub(self, by, text):
            cleaned.append(len(text))
            return sub(by, text)

    monkeypatch.setattr(output, "_ESCAPES", Counted())
    words = "".join(f"remote: line {n}\n" for n in range(3000)) + "remote: " + "long " * 5000 + "\nfatal: no\n"
    assert output.remote_lines(words)[-1] == "… and 2,952 more lines"
    assert output.sentence(words, 128) == "fatal: no"
    assert output.clean("long " * 5000).endswith("long…")
    assert (len(cleaned), max(cleaned)) == (2 * output.READ_LINES + 1, output.READ_TIMES * output.MAX_LINE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "fatal: '/srv/git/up.git' does not appear to be a git repository\n"
            "fatal: Could not read from remote repository.\n\n"
            "Please make sure you have the correct access rights\nand the repository exists.\n",
            "fatal: '…' does not appear to be a git repository",
        ),
        (
            "error: can't lock file:///srv/up.git: File exists\nerror: failed to push some refs to '/srv/up.git'\n",
            "error: can't lock …: File exists",
        ),
        (
            "fatal: unable to access 'http://h.test:80/a/b.git/'\n",
            "fatal: unable to access 'http://h.test:80/a/b.git/'",
        ),
        ("error: ../bundle did not send all objects\n", "error: ../bundle did not send all objects"),
        ("", "exit status 128"),
    ],
)
def test_the_telling_line_of_git_is_taken_without_paths_of_this_host(words, told):
    assert output.sentence(words, 128) == told
