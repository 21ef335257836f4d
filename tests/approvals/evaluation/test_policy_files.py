"""The policy file of a workspace's repository, from outside: it tightens each call, and loosens once it is adopted."""

import hashlib

import pytest

from ..actions.test_bound_files import run  # noqa: F401 (fixture)
from ..broker.test_broker import Brokered

PATH = ".handrail/policy.toml"
FILES = "/api/v1/policies/files"
PUSH = {"command": "git push origin main"}
STRICT = b'critical = ["Bash(git push *)"]\nforbidden = ["Bash(npm publish *)"]\n'
LOOSE = b'low = ["Bash(printenv PATH)"]\n'


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


@pytest.fixture
def file(desk, run):  # noqa: F811
    """`file(b"…")`: the repository has this policy file; returns its digest."""

    def put(content: bytes) -> str:
        desk.put(PATH, content)
        return hashlib.sha256(content).hexdigest()

    yield put
    run(f"rm -rf {PATH} {PATH}.d")


def judged(desk, command: str) -> dict:
    asked = desk.ask("Bash", {"command": command})
    if asked["status"] == "pending":
        desk.decide(asked, "deny")
    return asked


def reasons(asked) -> str:
    return " ".join(asked["reasons"])


def row(desk, sha256: str) -> dict:
    listed = desk.ok("GET", FILES, token=desk.lead)["files"]
    return next(each for each in listed if each["sha256"] == sha256)


def test_the_file_tightens_and_the_card_names_it(desk, file):
    assert judged(desk, "git push origin main")["tier"] == "high"
    sha256 = file(STRICT)
    asked = judged(desk, "git push origin main")
    assert (asked["tier"], asked["quorum"]) == ("critical", 2)
    assert f"{PATH} (sha256 {sha256[:12]}) makes this stricter" in reasons(asked)
    assert judged(desk, "npm publish x")["status"] == "denied"
    other = judged(desk, "curl -s https://example.com")
    assert (other["tier"], PATH in reasons(other)) == ("high", False)


def test_it_loosens_only_once_a_lead_adopted_this_content(desk, file):
    sha256 = file(LOOSE)
    assert judged(desk, "printenv PATH")["tier"] == "high"
    adopt = f"{FILES}/{row(desk, sha256)['id']}/adopt"
    desk.ok("POST", adopt, {"sha256": sha256}, token=desk.reviewer, expect=403)
    desk.ok("POST", adopt, {"sha256": "0" * 64}, token=desk.lead, expect=409)
    desk.ok("POST", adopt, {"sha256": sha256}, token=desk.agent, expect=403)
    assert judged(desk, "printenv PATH")["tier"] == "high"
    newly = desk.ok("GET", f"{FILES}/{row(desk, sha256)['id']}/diff", token=desk.lead)["newly_allowed"]
    assert [each["examples"][0]["input"]["command"] for each in newly] == ["printenv PATH"]
    assert desk.ok("POST", adopt, {"sha256": sha256}, token=desk.lead)["adopted_by"] == "lea-of-files"
    asked = judged(desk, "printenv PATH")
    assert (asked["tier"], asked["status"] != "pending") == ("low", True)
    assert f"(sha256 {sha256[:12]}), which lea-of-files adopted" in reasons(asked)

    changed = file(LOOSE + b"# changed\n")
    assert (judged(desk, "printenv PATH")["tier"], row(desk, changed)["adopted"]) == ("high", False)
    file(LOOSE)
    assert judged(desk, "printenv PATH")["tier"] == "low"
    desk.ok("POST", f"{FILES}/{row(desk, sha256)['id']}/let-go", {}, token=desk.lead)
    assert judged(desk, "printenv PATH")["tier"] == "high"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"high = [", "The policy is not valid TOML"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"x = 1", "Unknown key"),
        (b'[[tests]]\ntool = "Bash"\ninput = {command = "ls"}\ntier = "high"\n', "Test 1 of the policy fails"),
    ],
)
def test_a_bad_file_asks_about_everything_and_says_so(desk, file, content, why):
    assert judged(desk, "ls")["tier"] == "low"
    file(content)
    asked = judged(desk, "ls")
    assert (asked["tier"], why in reasons(asked), PATH in reasons(asked)) == ("high", True, True)


@pytest.mark.parametrize("instead", ["mkdir {0}", "mkfifo {0}", "ln -s /etc/hostname {0}", "truncate -s 1M {0}"])
def test_what_is_no_plain_file_asks_about_everything(desk, file, run, instead):  # noqa: F811
    run("mkdir -p .handrail; " + instead.format(PATH))
    asked = judged(desk, "ls")
    assert (asked["tier"], "can't be read" in reasons(asked)) == ("high", True)


def test_an_agent_that_writes_the_file_asks(desk, file):
    file(b'low = ["Edit(.handrail/**)", "Write(.handrail/**)"]')
    for asked in (
        desk.ask("Write", {"file_path": PATH, "content": ""}),
        desk.ask("Bash", {"command": f"rm {PATH}"}),
        desk.ask("Bash", {"command": f"echo > {PATH}"}),
    ):
        assert (asked["tier"], asked["status"]) == ("high", "pending")
        desk.decide(asked, "deny")


def test_an_approval_is_revoked_if_the_file_forbids_the_call_meanwhile(desk, file):
    asked = desk.ask("Bash", PUSH, mode="gate")
    desk.decide(asked)
    sha256 = file(b'forbidden = ["Bash(git push *)"]\n')
    path = f"/api/v1/actions/{asked['id']}/consume"
    refused = desk.ok("POST", path, {"digest": asked["digest"]}, expect=409)
    assert refused["code"] == "revoked"
    assert "rule Bash(git push *)" in refused["detail"]
    assert row(desk, sha256)["adopted"] is False
