"""Each address of E2B's APIs with missing, null, wrongly typed, huge and unknown values: its own errors, and no 500."""

import json
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from approvals.protocols.e2b import urls
from tests.support.desk import Desk

HUGE = "x" * 70_000
VALUES = ["null", "true", "5", "-1", "1e308", "1" + "0" * 400, '""', f'"{HUGE}"', '"\\ud800"', '"a\\u0000b"', "[]",
          "{}", "[[]]", "[5]", '{"a": null}', '{"a": [1]}', '"\\u0663"']  # fmt: skip
BODIES = [
    b"",
    b"null",
    b"[]",
    b"5",
    b"{",
    b"\xff",
    b'{"a": 1e400}',
    b"[" * 50_000,
    b'{"a": 1, "a": 2}',
    b'{"of": "none"}',
]
UNKNOWN = '{"pid": 1}'
PROCESS = {"process": UNKNOWN}
MESSAGES = {  # {address: a message that does no harm}, each of whose fields is given each of the values
    "process.Process/List": {},
    "process.Process/SendInput": PROCESS | {"input": '{"pty": "bHM="}'},
    "process.Process/CloseStdin": PROCESS,
    "process.Process/Update": PROCESS | {"pty": '{"size": {"cols": 9, "rows": 9}}'},
    "process.Process/SendSignal": PROCESS | {"signal": '"SIGNAL_SIGKILL"'},
    "filesystem.Filesystem/Stat": {"path": '"."'},
    "filesystem.Filesystem/ListDir": {"path": '"."', "depth": "1"},
    "filesystem.Filesystem/MakeDir": {"path": '"."'},
    "filesystem.Filesystem/Move": {"source": '"nowhere"', "destination": '"there"'},
    "filesystem.Filesystem/Remove": {"path": '"nowhere"'},
    "filesystem.Filesystem/CreateWatcher": {"path": '"nowhere"', "recursive": "true"},
    "filesystem.Filesystem/GetWatcherEvents": {"watcherId": '"nowhere"'},
    "filesystem.Filesystem/RemoveWatcher": {"watcherId": '"nowhere"'},
}
STREAMS = {
    "process.Process/Start": {"process": '{"cmd": "true"}', "pty": "null", "stdin": "false"},
    "process.Process/Connect": PROCESS,
    "process.Process/StreamInput": {"start": '{"process": {"pid": 1}}', "data": '{"input": {"pty": "bHM="}}'},
    "filesystem.Filesystem/WatchDir": {"path": '"nowhere"', "recursive": "false"},
}
PROCESSES = [  # what is odd further inside
    '{"cmd": 5}', '{"cmd": ""}', '{"cmd": ["ls"]}', '{"cmd": "ls", "args": 5}', '{"cmd": "ls", "args": "-l"}',
    '{"cmd": "ls", "args": {"a": 1}}', '{"cmd": "ls", "args": [null]}', '{"cmd": "ls", "cwd": []}',
    '{"cmd": "ls", "cwd": "a\\u0000b"}', '{"cmd": "ls", "cwd": "\\ud800"}', '{"cmd": "ls", "envs": {"A": 1}}',
    '{"cmd": "ls", "envs": {"a b": "c"}}', '{"cmd": "ls", "envs": {"": "c"}}', f'{{"cmd": "ls", "cwd": "{HUGE}"}}',
    '{"cmd": "nowhere-to-be-found"}', '{"cmd": "/bin/bash", "args": ["-l", "-c", ""]}',
    '{"cmd": "/bin/bash", "args": ["-l", "-c", "\\ud800"]}',
]  # fmt: skip
SIZES = ['{"size": 5}', '{"size": {"cols": "wide"}}', '{"size": {"cols": 1e3}}', '{"size": {"rows": 100000}}']
REST = {  # {(method, address): fields}; templates and keys that nothing has, so that nothing is made
    ("POST", "v2/sandboxes"): {"templateID": '"nowhere"', "metadata": "{}", "timeout": "9", "envVars": "{}",
                               "network": "{}", "allow_internet_access": "true"},
    ("POST", "v2/sandboxes/{key}/connect"): {"timeout": "9"},
    ("POST", "sandboxes/{key}/timeout"): {"timeout": "9"},
    ("POST", "sandboxes/nowhere/pause"): {"memory": "true"},
}  # fmt: skip
QUERIES = [{"limit": "9" * 5000}, {"limit": "-1"}, {"limit": "²"}, {"limit": "٣"}, {"limit": ""}, {"limit": "0"},
           {"nextToken": "x"}, {"nextToken": "\0"}, {"nextToken": HUGE[:3000]}, {"state": "odd,\0"},
           {"metadata": "a=\0&=b&c"}, {"metadata": "%ff=%00"}, {"template": "\0"}, {"odd": "1"}]  # fmt: skip


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("e2b-odd")


@pytest.fixture(scope="module")
def key(product, token) -> str:
    return Desk(product, token).create("odd-input")["key"]


def bodies(fields: dict) -> list[bytes]:
    """Return bodies with one field missing or odd, and those that are odd as a whole."""
    found = [dict(fields)] + [{one: fields[one] for one in fields if one != name} for name in fields]
    found += [fields | {name: value} for name in [*fields, "unknown"] for value in VALUES]
    texts = ["{" + ", ".join(f'"{name}": {value}' for name, value in each.items()) + "}" for each in found]
    return [text.encode() for text in texts] + BODIES


class Asker:
    def __init__(self, product, token: str, key: str):
        self.product, self.key = product, key
        self.sent = {"X-API-KEY": token, "E2b-Sandbox-Id": key}

    def ask(self, method: str, address: str, body: bytes | None = None, **headers):
        sent = self.sent | {"Content-Type": "application/json"} | headers
        return self.product.call(method, f"/e2b/{address}", "", body, headers=sent)

    def first_of(self, address: str, body: bytes, **headers) -> tuple[int, dict]:
        """Return the flags and the JSON of the first message of a stream; the rest is left unread."""
        framed = b"\0" + len(body).to_bytes(4, "big") + body
        sent = self.product.desk_host | self.sent | {"Content-Type": "application/connect+json"} | headers
        asked = Request(f"{self.product.url}/e2b/envd/{address}", framed, sent)
        with urlopen(asked, timeout=60) as answer:
            head = answer.read(5)
            return head[0], json.loads(answer.read(int.from_bytes(head[1:], "big")))


@pytest.fixture
def asker(product, token, key):
    asker, seen = Asker(product, token, key), len(product.log)
    yield asker
    assert "unhandled in" not in product.log[seen:]


def test_each_address_is_walked():
    named = {f"envd/{name}" for name in (*MESSAGES, *STREAMS)} | {address for _, address in REST}
    named |= {"envd/health", "envd/files"}
    routes = {str(one.pattern).replace("<str:key>", "{key}") for one in urls.urlpatterns} - {""}
    assert {route.replace("{key}", "nowhere") for route in routes} - {
        name.replace("{key}", "nowhere") for name in named
    } == {"sandboxes/nowhere"}  # takes no body


def is_refusal_or_answer(told) -> bool:
    return told.status < 500 or told.status in (501, 502, 503)


@pytest.mark.parametrize("address", MESSAGES)
def test_a_call_of_envd_answers_what_is_odd_with_an_error_of_connect(asker, address):
    for body in bodies(MESSAGES[address]):
        told = asker.ask("POST", f"envd/{address}", body)
        assert is_refusal_or_answer(told), (body[:200], told.body)
        assert told.status == 200 or (told.json["code"] != "internal" and told.json["message"]), (body[:200], told.body)


@pytest.mark.parametrize("address", STREAMS)
def test_a_stream_of_envd_answers_what_is_odd_with_an_error_of_connect(asker, address):
    odd = bodies(STREAMS[address])
    if address.endswith("Start"):
        odd += [f'{{"process": {process}}}'.encode() for process in PROCESSES]
        odd += [f'{{"process": {process}, "pty": {{}}}}'.encode() for process in PROCESSES if "nowhere" not in process]
        odd += [f'{{"process": {{"cmd": "true"}}, "pty": {size}}}'.encode() for size in SIZES]
    for body in odd:
        flags, told = asker.first_of(address, body)
        assert flags == 0 or told.get("error", {"code": ""})["code"] != "internal", (body[:200], told)


def test_the_headers_of_a_call_may_be_odd(asker):
    body = b'{"process": {"cmd": "true"}}'
    for name, value in (
        ("Connect-Timeout-Ms", "9" * 200), ("Connect-Timeout-Ms", "-1"), ("Connect-Timeout-Ms", "²"),
        ("Keepalive-Ping-Interval", "9" * 200), ("Keepalive-Ping-Interval", "²"), ("Authorization", "Basic ?"),
        ("Authorization", "Basic"), ("Authorization", "Odd"), ("E2b-Sandbox-Id", "x" * 5000), ("E2b-Sandbox-Id", ""),
        ("X-API-KEY", "x" * 5000), ("Idempotency-Key", "x" * 5000),
    ):  # fmt: skip
        flags, told = asker.first_of("process.Process/Start", body, **{name: value})
        assert flags == 0 or told.get("error", {"code": ""})["code"] != "internal", (name, told)


@pytest.mark.parametrize(("method", "address"), REST)
def test_the_rest_api_answers_what_is_odd_with_its_error(asker, method, address):
    for body in bodies(REST[method, address]):
        told = asker.ask(method, address.format(key=asker.key), body)
        assert is_refusal_or_answer(told), (body[:200], told.body)
        assert told.status < 400 or told.json["message"], (body[:200], told.body)


def test_queries_and_paths_may_be_odd(asker):
    for query in QUERIES:
        assert asker.ask("GET", f"v2/sandboxes?{urlencode(query)}").status in (200, 422), query
    for key in ("%00", "%ff", "x" * 3000, "a%2Fb", "..", "%F0%9F%98%80"):
        for method in ("GET", "DELETE", "PUT"):
            assert asker.ask(method, f"sandboxes/{key}").status in (404, 405, 422), (method, key)


def test_files_of_odd_names_and_forms_are_refused(asker):
    multipart = "multipart/form-data; boundary="
    named = b"--b\r\nContent-Disposition: form-data; %s\r\n\r\nx\r\n--b--\r\n"
    for path in ("", "\0", "/etc/passwd", "..", HUGE[:3000], "a/" * 500, "\udcff"):
        query = urlencode({"path": path}, errors="surrogateescape")
        assert asker.ask("GET", f"envd/files?{query}").status in (400, 403, 404, 422), path
        told = asker.ask("POST", f"envd/files?{query}", b"x", **{"Content-Type": "application/octet-stream"})
        assert is_refusal_or_answer(told), (path, told.body)
    for kind, body in (
        ("application/octet-stream", b"x"), (multipart, b"x"), (multipart + "b", b""), (multipart + "b", b"--b"),
        (multipart + "b", named % b"name=file"), (multipart + "b", named % b"filename="),
        (multipart + "b", named % b"filename*0*=x; filename*zz*=y"), (multipart + "b", named % b"filename*=odd''%ff"),
        (multipart + "b", named % b'filename="a\nb"'), (multipart + "b", named % b"filename=\xff"),
        (multipart + "\xfc", b"x"),
    ):  # fmt: skip
        told = asker.ask("POST", "envd/files", body, **{"Content-Type": kind})
        assert is_refusal_or_answer(told), (kind, body, told.body)
    for coding, body in (("gzip", b"x"), ("gzip", b""), ("br", b"x"), ("identity", b"x")):
        told = asker.ask("POST", "envd/files?path=packed", body, **{"Content-Encoding": coding})
        assert is_refusal_or_answer(told), (coding, told.body)


def test_a_time_out_may_be_huge(asker):
    assert asker.ask("POST", f"sandboxes/{asker.key}/timeout", b'{"timeout": 999999999999999999}').status == 204


def test_a_program_that_a_signal_without_a_name_ended_says_so(asker):
    body = b'{"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "kill -41 $$"]}}'
    framed = b"\0" + len(body).to_bytes(4, "big") + body
    sent = asker.sent | {"Content-Type": "application/connect+json"}
    told = asker.product.call("POST", "/e2b/envd/process.Process/Start", "", framed, headers=sent)
    assert b"signal: 41" in told.body, told.body


def test_commands_have_the_variables_of_the_environment_and_no_profile(asker):
    """The SDKs start each command by a login shell, which would set PATH anew."""
    desk = Desk(asker.product, asker.sent["X-API-KEY"])
    desk.run(asker.key, "echo 'export FROM_PROFILE=yes' > ~/.profile")
    text = 'echo "$PATH|${FROM_PROFILE:-no}"; [[ -n $BASH ]] && . ~/.profile && echo $FROM_PROFILE'
    body = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", text]}}).encode()
    framed = b"\0" + len(body).to_bytes(4, "big") + body
    sent = asker.sent | {"Content-Type": "application/connect+json"}
    asker.product.call("POST", "/e2b/envd/process.Process/Start", "", framed, headers=sent)
    newest = desk.get(f"/workspaces/{asker.key}/commands").json["commands"][0]
    assert newest["command"] == text
    path = desk.run(asker.key, 'echo "$PATH"').decode().strip()
    assert desk.get(f"/commands/{newest['id']}/output").body.decode() == f"{path}|no\nyes\n"
