"""The macOS profile of an envelope, read by a model of its rules: the last one that matches decides."""

import re
import subprocess
import sys

import pytest

from workspaces.drivers.seatbelt import profile
from workspaces.envelope.envelope import LOW, MEDIUM, Envelope

PLACES = {"workspace": "/Users/ada/my (web).shop", "home": "/Users/ada", "scratch": "/private/tmp/handrail"}
WORK = PLACES["workspace"]


class Model:
    """The rules of a profile about files, as `allows(operation, path)`."""

    def __init__(self, text: str):
        self.text, self.rules = text, []
        for verb, head, filters in _rules(text):
            self.rules.append((verb, head.split(), filters))

    def allows(self, operation: str, path: str) -> bool:
        verdict = False
        for verb, operations, filters in self.rules:
            if any(re.fullmatch(name.replace("*", ".*"), operation) for name in operations) and _matches(filters, path):
                verdict = verb == "allow"
        return verdict

    def reads(self, path: str) -> bool:
        return self.allows("file-read-data", path)

    def writes(self, path: str) -> bool:
        return self.allows("file-write-data", path)


def _rules(text: str):
    """Yield (verb, operations, filters) of each rule; filters are (kind, value)."""
    tokens = re.findall(r'#"[^"]*"|"(?:\\.|[^"\\])*"|[()]|[^\s()"]+', text)
    depth, rule = 0, []
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token, 0)
        assert depth >= 0, "an unbalanced profile"
        rule.append(token)
        if depth == 0:
            yield _rule(rule[1:-1])
            rule = []
    assert depth == 0, "an unbalanced profile"


def _rule(tokens: list[str]):
    verb, rest = tokens[0], tokens[1:]
    end = rest.index("(") if "(" in rest else len(rest)
    filters, inner = [], []
    for token in rest[end:]:
        if token == ")":
            filters.append((inner[0], inner[1:]))
        inner = [] if token == "(" else [*inner, token]
    return verb, " ".join(rest[:end]), filters


def _matches(filters, path: str) -> bool:
    if not filters:
        return True
    for kind, (value, *_more) in filters:
        plain = value[1:-1].replace('\\"', '"').replace("\\\\", "\\") if value.startswith('"') else value
        if kind == "subpath" and (path == plain or path.startswith(f"{plain}/")):
            return True
        if kind == "literal" and path == plain:
            return True
        if kind == "regex" and re.search(value[2:-1], path):
            return True
    return False


@pytest.fixture(scope="module")
def low() -> Model:
    return Model(profile(LOW, **PLACES))


@pytest.fixture(scope="module")
def medium() -> Model:
    return Model(profile(MEDIUM, **PLACES))


def test_low_reads_the_workspace_and_writes_scratch_alone(low):
    assert low.reads(f"{WORK}/src/app.py")
    assert low.reads("/usr/lib/libz.dylib")
    assert low.writes("/private/tmp/handrail/x")
    for path in (f"{WORK}/src/app.py", "/Users/ada/.cache/x", "/usr/local/bin/x", "/private/tmp/other"):
        assert not low.writes(path), path
    for path in ("/Users/ada/Documents/letter", "/Users/eve/x", "/Users/ada/Library/Keychains/login.keychain-db"):
        assert not low.reads(path), path
    assert "network" not in low.text


def test_medium_writes_the_workspace_and_caches_and_reaches_the_loopback(medium):
    assert medium.writes(f"{WORK}/src/app.py")
    assert medium.writes(f"{WORK}/.git/index")
    assert medium.writes("/Users/ada/.cache/pip/x")
    assert not medium.writes("/Users/ada/Documents/letter")
    assert '(remote ip "localhost:*")' in medium.text
    assert medium.text.count("(remote ip") == 1


@pytest.mark.parametrize(
    "name", [".env", "sub/.ENV.local", "deploy/server.key", ".aws/credentials", ".config/gh/hosts.yml", "a/id_rsa"]
)
def test_secrets_are_neither_read_nor_written_wherever_they_are(medium, name):
    for top in (WORK, "/Users/ada"):
        assert not medium.reads(f"{top}/{name}")
        assert not medium.writes(f"{top}/{name}")


@pytest.mark.parametrize("name", [".env.example", "src/key.py", "id_rsa.pub", "environment", "my.envelope"])
def test_what_only_looks_like_a_secret_is_read(medium, name):
    assert medium.reads(f"{WORK}/{name}")


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/modules/lib/hooks/post-checkout",
        ".claude/settings.json",
        "web/.husky/pre-push",
        ".github/workflows/ci.yml",
        ".bashrc",
    ],
)
def test_protected_paths_are_read_and_not_written(medium, name):
    assert medium.reads(f"{WORK}/{name}")
    assert not medium.writes(f"{WORK}/{name}")


def test_a_path_that_the_envelope_names_was_shown_to_a_person():
    model = Model(profile(Envelope(read=("workspace", f"{WORK}/.env"), write=(f"{WORK}/.husky",)), **PLACES))
    assert model.reads(f"{WORK}/.env")
    assert not model.reads(f"{WORK}/sub/.env")
    assert model.writes(f"{WORK}/.husky/pre-commit")
    assert not model.writes(f"{WORK}/README.md")


def test_a_path_that_would_end_its_text_is_refused():
    for path in ('/Users/ada/a"b', "/Users/ada/a\nb"):
        with pytest.raises(ValueError, match="cannot stand in a profile"):
            profile(MEDIUM, **PLACES | {"workspace": path})


def test_the_command_prints_it(tmp_path):
    argv = [sys.executable, "-m", "workspaces.drivers.seatbelt", "medium", str(tmp_path), "--home", "/Users/ada"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert Model(printed).writes(f"{tmp_path.resolve()}/a.txt")
    assert not Model(printed).writes(f"{tmp_path.resolve()}/.git/hooks/pre-push")
