"""Each kind of file is read strictly: what is wrong is named, what is right is still suggested, and nothing raises."""

import pytest

from workspaces.provisioning.repository_files import MAX_BYTES, find

COPILOT = """
on: workflow_dispatch
jobs:
  copilot-setup-steps:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - name: Install
        run: |
          make deps
      - name: Secret
        run: echo ${{ secrets.TOKEN }}
"""

CURSOR = '{"install": "npm ci", "start": "dockerd", "terminals": [{"command": "x"}, 1]}'
CONDUCTOR = '{"scripts": {"setup": "make", "run": "make run", "archive": "rm"}, "runScriptMode": "x"}'


def found(**files):
    """The suggestions for files by name; `__` stands for a slash in a name."""
    texts = {name.replace("__", "/"): text for name, text in files.items()}
    return find(lambda path: texts[path].encode() if path in texts else None)


def one(path: str, text):
    data = text if isinstance(text, bytes) else text.encode()
    [only] = find(lambda asked: data if asked == path else None)
    return only


def test_a_whole_handrail_toml():
    only = one(
        "handrail.toml",
        'environment = "default"\nsetup = ["make deps", "make"]\nignore = ["out/"]\npolicy = "p.toml"\n'
        'agents = ["claude"]\n[checks]\n"unit tests" = "make test"\n',
    )
    assert only.errors == []
    assert (only.environment, only.policy) == ("default", "p.toml")
    assert only.fields == {
        "setup": "make deps\nmake\n",
        "checks": {"unit tests": "make test"},
        "snapshot_ignore": "out/\n",
        "agents": ["claude"],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("setup = ", "It is not TOML: "),
        (b"setup = '\xff'", "It is not UTF-8."),
        ("a = " + "[" * 30_000, "It is not TOML: "),
        ("setup = 1", "setup: write a script"),
        ("setup = []", "setup: write a script"),
        ('setup = "a\\u0000b"', "setup: a script has at most"),
        ("checks = []", "checks: write at most"),
        ('[checks]\n"a=b" = "x"', "checks.a=b: write a name"),
        ('[checks]\na = "x\\ny"', "checks.a: write a name"),
        ('ignore = "x"', "ignore: write a list"),
        ('policy = "/etc/passwd"', "policy: write a path"),
        ('policy = "a/../../b"', "policy: write a path"),
        ('agents = ["a,b"]', "agents: a name can't contain a comma."),
        ("environment = 3", "environment: write the name"),
        ('set-up = "x"', "set-up: there is no such key"),
    ],
)
def test_what_is_wrong_in_handrail_toml_is_named(text, words):
    only = one("handrail.toml", text)
    assert [error.startswith(words) for error in only.errors] == [True]
    assert only.fields == {}


def test_files_of_other_products():
    [cursor, copilot, conductor] = found(
        **{
            ".cursor__environment.json": CURSOR,
            ".github__workflows__copilot-setup-steps.yml": COPILOT,
            "conductor.json": CONDUCTOR,
        }
    )
    assert cursor.fields == {"setup": "npm ci\n", "maintenance": "dockerd\n"}
    assert copilot.fields == {"setup": "make deps\n"}
    assert [note.partition(" is ")[0] for note in copilot.notes] == [
        "The step actions/checkout@v5",
        "The step Secret",
    ]
    assert conductor.fields == {"setup": "make\n"}
    assert conductor.notes[1:] == ["archive is not taken.", "runScriptMode is not taken."]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".devcontainer.json", "{"),
        (".devcontainer/devcontainer.json", '{"dockerComposeFile": "x"}'),
        (".cursor/environment.json", "[]"),
        (".cursor/environment.json", '{"install": 1}'),
        ("conductor.json", '{"scripts": 1}'),
        ("conductor.json", "[" * 5000),
        (".github/workflows/copilot-setup-steps.yml", "a: [" * 5000),
        (".github/workflows/copilot-setup-steps.yml", "!!python/object/apply:os.system ['true']"),
        (".github/workflows/copilot-setup-steps.yml", "jobs: {copilot-setup-steps: {steps: x}}"),
        ("handrail.toml", "#" * (MAX_BYTES + 1)),
    ],
)
def test_a_faulty_file_is_an_error_of_its_own(path, text):
    only = one(path, text)
    assert len(only.errors) == 1
    assert only.fields == {}


@pytest.mark.parametrize(
    ("files", "script"),
    [
        ({"requirements.txt": ""}, "python3 -m venv .venv\n.venv/bin/pip install -r requirements.txt\n"),
        ({"pyproject.toml": "", "uv.lock": ""}, "uv sync --frozen\n"),
        ({"package.json": "", "pnpm-lock.yaml": ""}, "pnpm install --frozen-lockfile\n"),
        ({"package.json": ""}, "npm install\n"),
        ({"go.mod": ""}, "go mod download\n"),
        ({"Cargo.toml": "", "Cargo.lock": ""}, "cargo fetch --locked\n"),
    ],
)
def test_dependency_files_suggest_a_script(files, script):
    [only] = found(**files)
    assert only.fields == {"setup": script}
