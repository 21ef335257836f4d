"""The check of `make lint` that finds regular expressions that take more than linear time."""

import re
import subprocess
import sys

import pytest

from tests.support import CHECKOUT

sys.path.append(str(CHECKOUT / "deploy" / "patterns"))
import check
import regex_js


def checked(tmp_path, text, name="one.py"):
    file = tmp_path / name
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, "deploy/patterns/check.py", str(file)], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert not done.stderr
    return done.returncode, done.stdout


@pytest.fixture(scope="module", autouse=True)
def recheck():
    if not (CHECKOUT / ".venv" / "patterns" / "recheck.js").exists():
        pytest.skip("make lint has not brought recheck from npm yet")


def test_a_pattern_that_is_not_linear_fails(tmp_path):
    text = 'import re\n\nHOST = "[a-z]+"\nWORD = re.compile(rf"{HOST}+=")\nre.search(r"\\d+x", "")\n'
    code, said = checked(tmp_path, text)
    assert code == 1
    # A part of a module that cannot be imported is not known, so neither is the pattern.
    assert f"{tmp_path}/one.py:4: cannot be read here (name 'HOST' is not defined)" in said
    assert f"{tmp_path}/one.py:5: takes 2nd degree polynomial time" in said


def test_a_reason_beside_it_lets_it_pass(tmp_path):
    code, said = checked(tmp_path, 'import re\n\n# pattern: a name of 20 letters\nre.search(r"\\d+x", "")\n')
    assert (code, said) == (0, "")


def test_a_kept_verdict_is_used_until_recheck_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(check, "VERDICTS", tmp_path / "verdicts.json")
    monkeypatch.setattr(check, "recheck", lambda share: pytest.fail("recheck was run") if share else [])
    asked = {"source": "never [met] before", "flags": ""}
    verdict = {"status": "safe", "complexity": "linear", "why": ""}
    slow = {"source": "too slow to tell", "flags": ""}
    check.keep_verdicts({check.key_of(asked): verdict, check.key_of(slow): verdict | {"why": "timeout"}})
    assert check.ask([asked]) == {check.key_of(asked): verdict}
    monkeypatch.setattr(check, "recheck_digest", lambda: "another version")
    assert check.kept_verdicts() == {}


def test_how_it_is_used_decides(tmp_path):
    searched = 'import re\n\n_WORD = re.compile(r"\\d+x")\n\n\ndef has(text):\n    return _WORD.{}(text)\n'
    assert checked(tmp_path, searched.format("fullmatch")) == (0, "")
    assert checked(tmp_path, searched.format("search"))[0] == 1


def test_patterns_that_hide_fail(tmp_path):
    assert "hides patterns" in checked(tmp_path, "from re import compile\n")[1]
    assert "hides patterns" in checked(tmp_path, "import re as expressions\n")[1]


def test_scripts_are_read_too(tmp_path):
    code, said = checked(tmp_path, 'const plain = text.replace(/\\s+$/, "");\n', name="one.js")
    assert code == 1
    assert "one.js:1: takes 2nd degree polynomial time" in said


@pytest.mark.parametrize(
    ("pattern", "method", "source"),
    [
        (r"(?P<a>x)+y", "search", r"(?:(x))+y"),
        (r"\d{1,50}x", "search", None),
        (r"[^:\n]{1,4096}'", "fullmatch", r"^(?:(?:[^\u003a\u000a])+\u0027)$"),
        (r"(?s:.)*b", "match", r"^(?:(?:(?:[\s\S]))*b)"),
        (r"(?i)a*", "search", r"(?:a)*"),
    ],
)
def test_a_pattern_is_written_for_javascript(pattern, method, source):
    asked = regex_js.translate(pattern, 0, method)
    assert (asked and asked["source"]) == source
    assert re.compile(pattern)  # it is one of Python
