"""What a policy trusts: programs bound to their file and digest, places, and reads at the code host."""

import pytest

from approvals.policy import Policy, PolicyError, classify, load_policy

DIGEST, OTHER = "a" * 64, "b" * 64
MISE = f'{{name = "mise", path = "/usr/bin/mise", sha256 = "{DIGEST}"}}'
TRUST = f"""
[trust]
code_host = true
places = ["/home/agent/other"]
programs = [{MISE}, {{name = "setup.sh", path = "/workspace/scripts/setup.sh", sha256 = "{DIGEST}"}}]
"""
PROGRAMS = {
    "mise": {"path": "/usr/bin/mise", "sha256": DIGEST},
    "./scripts/setup.sh": {"path": "/workspace/scripts/setup.sh", "sha256": DIGEST},
}


def judge(command, text=TRUST, **context):
    return classify("Bash", {"command": command}, policy=load_policy(text), context={"programs": PROGRAMS} | context)


@pytest.mark.parametrize(
    ("command", "tier"),
    [
        ("mise run test 2>&1 | tail -5", "medium"),
        ("cd api && mise run fmt", "medium"),
        ("bash ./scripts/setup.sh", "medium"),
        ("./scripts/setup.sh --all", "medium"),
        ("mise exec -- git push", "high"),
        ("mise exec -- git push --force origin main", "critical"),
        ("mise run x .env", "high"),
        ("mise run x && python3 y.py", "high"),
        ("./mise run test", "high"),
        ("MISE_CONFIG_FILE=x mise run test", "high"),
        ("bash ./scripts/other.sh", "high"),
        ("bash mise", "high"),
    ],
)
def test_a_trusted_program_runs_and_what_it_seems_to_start_is_judged(command, tier):
    assert judge(command).tier == tier


@pytest.mark.parametrize(
    "programs",
    [
        {},
        {"mise": {"path": "/usr/bin/mise", "sha256": OTHER}},
        {"mise": {"path": "/workspace/bin/mise", "sha256": DIGEST}},
        {"mise": {"path": "/usr/bin/mise"}},
        {"mise": "/usr/bin/mise"},
        ["mise"],
        None,
    ],
)
def test_without_the_same_file_and_digest_it_asks(programs):
    assert judge("mise run test", programs=programs).tier == "high"


def test_a_restricting_rule_comes_before_trust():
    assert judge("mise run deploy", 'forbidden = ["Bash(mise run deploy)"]\n' + TRUST).tier == "forbidden"


@pytest.mark.parametrize(
    ("command", "tier"),
    [
        ("cat ~/other/notes.md", "low"),
        ("cd ~/other && grep -rn x src", "low"),
        ("echo x > ~/other/notes.md", "medium"),
        ("rm ~/other/notes.md", "high"),
        ("cat ~/other/.env", "high"),
        ("echo x > ~/other/.git/hooks/pre-commit", "high"),
        ("cat ~/others/notes.md", "high"),
        ("cat ~/other/../x", "high"),
    ],
)
def test_a_trusted_place_is_read_and_written_but_never_its_secrets(command, tier):
    assert judge(command).tier == tier


def test_an_envelope_holds_the_trusted_place():
    read = judge("cat ~/other/a", held=True).envelope
    assert (read["read"], read["write"]) == (["workspace", "toolchains", "/home/agent/other"], ["scratch"])
    assert "/home/agent/other" in judge("echo x > ~/other/a", held=True).envelope["write"]


@pytest.mark.parametrize("command", ["gh pr view 1", "git fetch origin", "gh api repos/a/b/pulls --jq '.[].id'"])
def test_reads_at_the_code_host_run_only_where_they_are_trusted_or_held(command):
    assert judge(command).tier == "medium"
    assert judge(command, "").tier == "high"
    assert judge(command, "trust.code_host = false", held=True).tier == "high"
    assert judge(command, "", held=True).tier == "medium"


@pytest.mark.parametrize("command", ["gh pr merge 1", "gh api repos/a/b -f x=y", "git push", "git pull"])
def test_writes_at_the_code_host_ask_all_the_same(command):
    assert judge(command).tier == "high"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trust = 1", "trust is a table"),
        ("trust.program = []", "trust is a table"),
        ('trust.code_host = "yes"', "true or false"),
        ('trust.programs = ["mise"]', "a name, a path and a sha256"),
        (f'trust.programs = [{{name = "bash", path = "/bin/bash", sha256 = "{DIGEST}"}}]', "whatever its words say"),
        (f'trust.programs = [{{name = "x", path = "/usr/bin/python3.11", sha256 = "{DIGEST}"}}]', "whatever its words"),
        (f'trust.programs = [{{name = "x", path = "bin/x", sha256 = "{DIGEST}"}}]', "absolute path"),
        ('trust.programs = [{name = "x", path = "/bin/x", sha256 = "abc"}]', "SHA-256"),
        ('trust.places = ["/"]', "absolute path of a folder"),
        ('trust.places = ["/home/mia"]', "too much to trust"),
        ('trust.places = ["/etc"]', "too much to trust"),
        ('trust.places = ["/home/mia/.ssh"]', "secrets or settings"),
        ('trust.places = ["../other"]', "absolute path of a folder"),
    ],
)
def test_trust_that_would_allow_everything_is_refused(text, message):
    with pytest.raises(PolicyError, match=message):
        load_policy(text)


EVERYDAY = [
    ("git -C . status", "low"),
    ("git -C /workspace diff HEAD~1", "low"),
    ("git -C api log --oneline -3", "medium"),
    ("git --no-pager -C /workspace show HEAD", "low"),
    ("git diff $(git merge-base main HEAD)", "low"),
    ("BASE=$(git merge-base main HEAD); git log $BASE..HEAD", "low"),
    ("i=0; for f in a b; do i=$((i+1)); done; echo $i", "low"),
    ("n=3; while ((n > 0)); do n=$((n - 1)); done", "low"),
    ("kill %1", "medium"),
    ("curl -s localhost:3000/health", "medium"),
    ("less README.md", "medium"),
    ("rustc --version && gcc --version", "medium"),
    ("gcc --version", "low"),
    ("cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j4 && ctest --test-dir build", "medium"),
    ("python -m http.server 8000", "medium"),
    ("make > /tmp/out.log 2>&1; tail -5 /tmp/out.log", "medium"),
    ("OUT=build; ls $OUT", "low"),
    ("pnpm --filter @a/b test", "medium"),
    ("npm --prefix api run build", "medium"),
    ("go test -bench=. -benchtime=1x ./...", "medium"),
]
STILL_ASK = [
    "git -C /home/mia/other status",
    "git -C $DIR status",
    "git -C api push",
    "git diff $(git merge-base --fork-point main)",
    "git diff $(cat revisions)",
    "rm -rf $(git merge-base main HEAD)/*",
    "B=$(git merge-base main HEAD); rm -rf $B/*",
    "B=$(git merge-base main HEAD); cat $B/etc/passwd",
    "$(git merge-base main HEAD) rm -rf /home",
    "git push origin $(git merge-base main HEAD)",
    "git diff $(git rev-parse --output=x)",
    "i=$((x+1))",
    "read i; echo $((i+1))",
    "i=0; i=$y; echo $((i+1))",
    "i=0; eval i=x; echo $((i+1))",
    "a=1; echo $((a[0]))",
    "kill 1234",
    "kill -9 %1 1234",
    "curl -s localhost/health",
    "curl -d x localhost:3000/",
    "curl -L localhost:3000/",
    "curl localhost:2375/containers/json",
    "curl 10.0.0.1:3000",
    "less .env",
    "less -o log README.md",
    "./rustc --version",
    "cmake -B build -DCMAKE_C_COMPILER=./evil",
    "cmake -P evil.cmake",
    "cmake --install build",
    "cmake -B ../build",
    "rm -rf /tmp/x",
    "cat /tmp/../etc/shadow",
    "echo x > /tmp/.ssh/config",
    "GIT_DIR=/tmp/x; git log",
    "npm --prefix ../other test",
    "pnpm --filter $X test",
    "go test -exec ./evil ./...",
    "go build -ldflags '-extld=./evil' .",
]


@pytest.mark.parametrize(("command", "tier"), EVERYDAY)
def test_everyday_calls_run(command, tier):
    assert classify("Bash", {"command": command}, policy=Policy()).tier == tier


@pytest.mark.parametrize("command", STILL_ASK)
def test_their_neighbours_that_can_do_harm_still_ask(command):
    assert classify("Bash", {"command": command}, policy=Policy()).tier == "high"


ESLINT_PLUS = "/workspace/web/node_modules/.bin/eslint-plus"
PACKAGED = f"""
[[trust.programs]]
name = "eslint-plus"
path = "{ESLINT_PLUS}"
sha256 = "{DIGEST}"
"""


@pytest.mark.parametrize(
    ("command", "tier"),
    [
        ("cd web && npx eslint-plus src", "medium"),
        ("cd web && npx --no-install eslint-plus src", "medium"),
        ("npx eslint-plus src", "high"),
        ("cd web && npx eslint-plus@2 src", "high"),
        ("cd web && npx -p other eslint-plus src", "high"),
        ("cd web && npx eslint-minus src", "high"),
        ("cd web; cd src; npx eslint-plus", "high"),
        ("cd web && npx eslint-plus src > .git/config", "high"),
    ],
)
def test_npx_runs_a_trusted_program_of_the_projects_packages(command, tier):
    programs = {ESLINT_PLUS: {"path": ESLINT_PLUS, "sha256": DIGEST}}
    assert judge(command, PACKAGED, programs=programs).tier == tier


def test_npx_asks_once_the_package_has_another_file():
    programs = {ESLINT_PLUS: {"path": ESLINT_PLUS, "sha256": OTHER}}
    assert judge("cd web && npx eslint-plus src", PACKAGED, programs=programs).tier == "high"


@pytest.mark.parametrize("place", ["/c/Users/mia", "/mnt/c/Users/mia", "/d/home/mia", "/c/Users"])
def test_a_home_of_windows_is_no_place(place):
    with pytest.raises(PolicyError):
        load_policy(f'[trust]\nplaces = ["{place}"]')


def test_a_wildcard_in_a_trusted_place_lists_it():
    assert judge("cat /home/agent/other/*.log").tier == "low"
