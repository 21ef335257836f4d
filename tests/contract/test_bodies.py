"""Bodies at the socket: who is not known sends little, who is known sends what the path takes, and the disk decides."""

import json
import socket
import time
from hashlib import sha256
from pathlib import Path

import pytest

MIB = 1024 * 1024


def memory_of(product) -> int:
    """Bytes of memory that are the web process's own."""
    status = Path(f"/proc/{product.part_pid('web')}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def send(product, head: list[str], pieces=(), *, token="", pause=0.0) -> tuple[int, dict]:
    """The status and JSON of the answer; what it does not take of the pieces is not sent."""
    lines = [*head, "Host: 127.0.0.1", *([f"Authorization: Bearer {token}"] if token else [])]
    with socket.create_connection(("127.0.0.1", product.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        while b"\r\n\r\n" not in answer or not _whole(answer):
            part = connection.recv(65536)
            assert part, answer
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def _whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return len(body) >= int(length.split(b":")[1])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LARGE = [b"x" * MIB] * 200
WAYS = {
    "with its length": (f"Content-Length: {200 * MIB}", LARGE),
    "in chunks": ("Transfer-Encoding: chunked", [chunk(piece) for piece in LARGE]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("token", ["", "hr_00000000_nobody"])
@pytest.mark.parametrize("line", ["POST /healthz", "POST /accounts/login/", "POST /api/v1/uploads", "PUT /api/v1/none"])
def test_nobody_known_makes_web_grow(product, line, token, way):
    header, pieces = WAYS[way]
    product.get("/healthz")
    before = memory_of(product)
    status, told = send(product, [f"{line} HTTP/1.1", header], pieces, token=token)
    assert (status, told["status"]) == (413, 413)
    assert told["detail"] == "The body is too large: the limit here is 32,768 bytes."
    assert memory_of(product) - before < 16 * MIB
    assert product.get("/healthz").status == 200


def test_a_hook_that_nobody_known_sends_is_denied_unread(product):
    status, told = send(product, ["POST /hooks/claude-code HTTP/1.1", WAYS["in chunks"][0]], WAYS["in chunks"][1])
    assert status == 200
    assert told["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.fixture(scope="module")
def token(product):
    return product.agent_token("sender-of-bodies")


@pytest.mark.parametrize("chunked", [True, False])
def test_who_is_known_sends_what_the_path_takes(product, token, chunked):
    data = [bytes([number]) * MIB for number in range(48)]
    before = memory_of(product)
    if chunked:
        header, pieces = "Transfer-Encoding: chunked", [*map(chunk, data), b"0\r\n\r\n"]
    else:
        header, pieces = f"Content-Length: {48 * MIB}", data
    status, told = send(product, ["POST /api/v1/uploads HTTP/1.1", header], pieces, token=token)
    assert (status, told["bytes"]) == (201, 48 * MIB)
    kept = next((product.home / "uploads").glob(f"*/{told['id']}"))
    assert sha256(kept.read_bytes()).digest() == sha256(b"".join(data)).digest()
    assert memory_of(product) - before < 24 * MIB


def test_other_paths_take_less_of_it(product, token):
    status, told = send(
        product, ["POST /api/v1/actions HTTP/1.1", WAYS["in chunks"][0]], WAYS["in chunks"][1], token=token
    )
    assert (status, told["detail"]) == (413, "The body is too large: the limit here is 10,485,760 bytes.")


@pytest.mark.parametrize("size", [32 * 1024, 32 * 1024 + 1, 70_000])
def test_a_body_around_the_first_limit_arrives_whole(product, token, size):
    call = {"tool": "Echo", "arguments": {"text": "x"}, "mode": "gate"}
    call["arguments"]["text"] = "x" * (size - len(json.dumps(call)) + 1)
    body = json.dumps(call).encode()
    assert len(body) == size
    head = ["POST /api/v1/actions HTTP/1.1", "Content-Type: application/json"]
    for header, pieces in (
        (f"Content-Length: {size}", [body]),
        ("Transfer-Encoding: chunked", [chunk(body) + b"0\r\n\r\n"]),
        (f"Content-Length: {size}", [body[:10], body[10:40_000], body[40_000:]]),
    ):
        status, told = send(product, [*head, header], pieces, token=token, pause=0.05)
        assert (status, told["tool"]) == (201, "Echo")


def test_an_upload_leaves_the_reserve_of_the_disk(new_product):
    product = new_product(HANDRAIL_RESERVE_BYTES=str(10**17))
    product.start()
    token = product.agent_token()
    for size in (10, 64 * 1024):
        status, told = send(
            product, ["POST /api/v1/uploads HTTP/1.1", f"Content-Length: {size}"], [b"x" * size], token=token
        )
        assert (status, told["status"]) == (507, 507)
    assert [*(product.home / "uploads").glob("*/*")] == []


def test_each_caller_keeps_so_much_and_no_more(new_product):
    product = new_product(HANDRAIL_UPLOAD_BYTES="100000")
    product.start()
    first, second = product.agent_token("first"), product.agent_token("second")
    body = b"x" * 90_000
    sent = [product.call("POST", "/api/v1/uploads", first, body).status for _ in range(6)]
    assert sent == [201, 201, 201, 201, 429, 429]
    assert product.call("POST", "/api/v1/uploads", second, body).status == 201
