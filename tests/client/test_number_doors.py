"""Numbers at each door for programs: the digits that were sent are asked about; those approved are handed back."""

import json
import re
import subprocess
import sys

import pytest

from approvals.pages.connect import PYTHON
from handrail_client import Refused, json_text
from tests.approvals.test_numbers import SPELLINGS, TOO_LARGE
from tests.client.mcp.conftest import META, gate, sent, speak  # noqa: F401 (fixtures)

MANY = f"[{','.join(SPELLINGS)}]"
OTHERS = f"[{','.join(reversed(SPELLINGS))}]"  # what a person edits it into
WORDS = "larger than programs can hold: send it as a text"
PASTED = """
from handrail import allowed, dumps, loads
with allowed("mcp__pay__send", loads(input())) as arguments:
    print(dumps(arguments), *arguments["amounts"], sep="\\n")
"""


def arguments(numbers: str) -> str:
    return f'{{"amounts":{numbers}}}'


def plain(text: str) -> str:
    return re.sub(r"\s", "", text).replace("\\", "")


@pytest.fixture
def is_edited(product, person, name):
    """`is_edited()`: the one call that waits is shown with its digits, and a person edits it."""

    def edit(asked=MANY):
        found = person.sees(name)
        path = f"/api/v1/actions/{found['id']}"
        shown = product.get(path, person.token)
        assert asked in plain(shown.text)
        edited = shown.json["arguments"] | {"amounts": "N"}
        body = json.dumps({"verdict": "edit", "digest": found["digest"], "arguments": edited}).replace('"N"', OTHERS)
        answer = product.call("POST", f"{path}/decision", person.token, body.encode())
        assert answer.status == 200, answer.text

    return edit


@pytest.fixture
def run(environment, tmp_path):
    """`run(argv)`: the process of a program with the client, in a thread that keeps what it says."""

    def start(argv, **more):
        return subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, **more)

    return start


def test_a_program_with_the_client(desk, beside, is_edited):
    running = beside(desk.permitted, "mcp__pay__send", json_text.loads(arguments(MANY)))
    is_edited()
    used = running.result(60).arguments
    assert plain(json_text.dumps(used)) == arguments(OTHERS)
    assert [str(value) for value in used["amounts"]] == list(reversed(SPELLINGS))
    for number in TOO_LARGE[-3:]:
        with pytest.raises(Refused, match=WORDS):
            desk.ask("mcp__pay__send", {"amounts": json_text.loads_as_written(f"[{number}]")})


def test_the_command_line(command, run, beside, is_edited):
    running = beside(run, [*command, "ask", "mcp__pay__send", arguments(MANY)])
    is_edited()
    done = running.result(60)
    assert OTHERS in plain(done.stdout), done.stderr
    listed = run([*command, "approvals", "show", json.loads(done.stdout)["action"]])
    assert OTHERS in plain(listed.stdout), listed.stderr
    for number in TOO_LARGE[-2:]:
        refused = run([*command, "ask", "mcp__pay__send", arguments(number)])
        assert (refused.returncode != 0, WORDS in refused.stderr) == (True, True)


def test_a_program_with_the_text_from_the_connect_page(run, beside, is_edited, tmp_path):
    (tmp_path / "handrail.py").write_text(PYTHON.read_text())
    running = beside(run, [sys.executable, "-c", PASTED], input=arguments(MANY))
    is_edited()
    done = running.result(60)
    text, *numbers = done.stdout.splitlines()
    assert (plain(text), numbers) == (arguments(OTHERS), list(reversed(SPELLINGS))), done.stderr
    refused = run([sys.executable, "-c", PASTED], input=arguments("[1e400]"))
    assert WORDS in refused.stderr


@pytest.mark.parametrize("meta", [{}, META], ids=["with a greeting", "of 2026"])
def test_the_gate_for_mcp(gate, sent, is_edited, meta):  # noqa: F811
    client = gate()
    more = f',"_meta":{json.dumps(meta)}' if meta else ""
    line = '{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"note","arguments":{}{}}}}}\n'
    call = arguments(MANY)[:-1] + ',"command":"n"}'
    client.send(line.format(1, call, more).encode())
    is_edited()
    client.answer(1)
    assert f'"amounts":{OTHERS}' in plain(sent()[-1].decode())
    for number in TOO_LARGE:
        client.send(line.format(2, call.replace(MANY, number), more).encode())
    client.ask(3, "ping")
    client.answer(3)
    refused = [each["error"]["message"] for each in client.heard if "error" in each]
    assert [WORDS in words for words in refused] == [True] * len(TOO_LARGE)


def test_permission_by_mcp(speak, is_edited):  # noqa: F811
    client = speak("mcp-server", "--grace", "0.5")
    client.begin()
    call = f'{{"name":"ask_permission","arguments":{{"tool_name":"mcp__pay__send","input":{arguments(MANY)}}}}}'
    client.send(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{call}}}\n'.encode())
    is_edited()
    assert OTHERS in plain(client.text(1))
