"""Requests and answers that try to get at a credential, by class; each class makes as many as are wanted from a seed.

`TRIES` make what a program sends: the real value may reach no server by it. `ANSWERS` make what the leashed host itself
returns, which has the value: it may not reach the program by it.
"""

import base64
import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.workspaces.egress.leashes import NAME, REAL, STAND_IN

OTHER = "other.test"
TOKEN = f"Authorization: Bearer {STAND_IN}"
PATH = "/repos/acme/shop"
TRIES: dict[str, Callable] = {}
ANSWERS: dict[str, Callable] = {}


@dataclass
class Try:
    """What a program does: `data` in TLS to `host`, in a tunnel to it without TLS, or to the proxy itself."""

    data: bytes
    host: str = NAME
    sni: str | None = NAME
    via: str = "tls"  # tls | tunnel | proxy
    connect: str = ""  # another CONNECT head than that of the host


class Ports:
    """The ports that the classes name: of the leashed host's TLS, of its plain HTTP, and of another host's TLS."""

    def __init__(self, leashed: int, plain: int, other: int):
        self.leashed, self.plain, self.other = leashed, plain, other


def of(table: dict):
    """Register the decorated function by its name."""

    def register(function):
        table[function.__name__] = function
        return function

    return register


def head(ports: Ports, *fields: str, method="GET", path=PATH, host="", version="HTTP/1.1", end="\r\n") -> bytes:
    lines = [f"{method} {path} {version}", f"Host: {host or f'{NAME}:{ports.leashed}'}", *fields]
    return (end.join(lines) + end + end).encode("latin-1")


def cased(draw: random.Random, text: str) -> str:
    return "".join(draw.choice((each.lower(), each.upper())) for each in text)


# Other hosts ---------------------------------------------------------------------------------------------------------


@of(TRIES)
def another_host(draw, ports):
    return Try(head(ports, TOKEN, host=f"{OTHER}:{ports.other}"), host=OTHER, sni=OTHER)


@of(TRIES)
def another_host_in_plain_http(draw, ports):
    at = f"{OTHER}:{ports.plain}"
    return Try(head(ports, TOKEN, host=at, path=f"http://{at}{PATH}"), via="proxy")


@of(TRIES)
def a_host_below_the_leashed_one(draw, ports):
    name = f"{draw.choice(('api', 'x', 'www', '_'))}.{NAME}"
    return Try(head(ports, TOKEN, host=f"{name}:{ports.leashed}"), host=name, sni=name)


@of(TRIES)
def a_host_that_ends_or_begins_alike(draw, ports):
    name = draw.choice((f"{NAME}.{OTHER}", f"x{NAME}", f"{NAME}.", f"{NAME}x", f"xn--{NAME}"))
    return Try(head(ports, TOKEN, host=f"{name.rstrip('.')}x:{ports.leashed}"), host=name, sni=name.rstrip("."))


@of(TRIES)
def another_port(draw, ports):
    port = ports.other
    return Try(
        head(ports, TOKEN, host=f"{NAME}:{port}"), connect=f"CONNECT {NAME}:{port} HTTP/1.1\r\nHost: {NAME}:{port}"
    )


@of(TRIES)
def a_user_name_in_the_tunnel(draw, ports):
    at = draw.choice((f"{NAME}:{ports.leashed}@{OTHER}:{ports.other}", f"{NAME}@{OTHER}:{ports.other}"))
    return Try(head(ports, TOKEN), connect=f"CONNECT {at} HTTP/1.1\r\nHost: {NAME}:{ports.leashed}")


@of(TRIES)
def a_user_name_in_the_address(draw, ports):
    user = draw.choice((NAME, STAND_IN, f"{NAME}:{STAND_IN}", f"x:{STAND_IN}", f"{NAME}%40"))
    at = f"http://{user}@{OTHER}:{ports.plain}{PATH}"
    return Try(head(ports, path=at, host=f"{OTHER}:{ports.plain}"), via="proxy")


@of(TRIES)
def the_leashed_host_in_plain_http(draw, ports):
    at = f"{NAME}:{draw.choice((ports.plain, ports.leashed))}"
    return Try(head(ports, TOKEN, path=f"http://{at}{PATH}", host=at), via="proxy")


@of(TRIES)
def plain_http_in_the_tunnel(draw, ports):
    return Try(head(ports, TOKEN, method=draw.choice(("GET", "HEAD", "POST"))), via="tunnel")


@of(TRIES)
def another_hosts_name_in_the_host_field(draw, ports):
    host = draw.choice((OTHER, f"{OTHER}:{ports.other}", NAME, f"{NAME}:{ports.other}", f"{NAME}.{OTHER}", "127.0.0.1"))
    return Try(head(ports, TOKEN, host=host))


@of(TRIES)
def two_host_fields(draw, ports):
    return Try(head(ports, f"{cased(draw, 'Host')}: {draw.choice((OTHER, f'{NAME}:{ports.leashed}'))}", TOKEN))


@of(TRIES)
def no_host_field(draw, ports):
    version = draw.choice(("HTTP/1.1", "HTTP/1.0"))
    return Try(f"GET {PATH} {version}\r\n{TOKEN}\r\n\r\n".encode())


@of(TRIES)
def a_user_name_in_the_host_field(draw, ports):
    return Try(head(ports, TOKEN, host=f"{draw.choice((OTHER, 'x', 'x:y'))}@{NAME}:{ports.leashed}"))


@of(TRIES)
def another_name_in_the_hello(draw, ports):
    return Try(head(ports, TOKEN), sni=draw.choice((OTHER, f"x.{NAME}", f"{NAME}.{OTHER}")))


@of(TRIES)
def no_name_in_the_hello(draw, ports):
    return Try(head(ports, TOKEN), sni=None)


@of(TRIES)
def another_host_in_the_head_of_the_tunnel(draw, ports):
    connect = f"CONNECT {NAME}:{ports.leashed} HTTP/1.1\r\nHost: {OTHER}:{ports.other}"
    return Try(head(ports, TOKEN), connect=connect)


@of(TRIES)
def a_whole_address_within_tls(draw, ports):
    at = draw.choice(
        (f"https://{OTHER}:{ports.other}", f"http://{OTHER}", f"https://{NAME}:{ports.leashed}", "//" + OTHER)
    )
    path = at + PATH if at.startswith("http") else at + "/.."
    return Try(head(ports, TOKEN, path=path))


@of(TRIES)
def a_tunnel_within_tls(draw, ports):
    at = draw.choice((f"{OTHER}:{ports.other}", f"{NAME}:{ports.leashed}"))
    return Try(head(ports, TOKEN, method="CONNECT", path=at))


# Framing -------------------------------------------------------------------------------------------------------------


def hidden(ports, path="/user") -> str:
    return head(ports, TOKEN, path=path).decode()


@of(TRIES)
def a_length_and_chunks(draw, ports):
    fields = ["Content-Length: 4", f"{cased(draw, 'Transfer-Encoding')}: chunked"]
    draw.shuffle(fields)
    return Try(head(ports, TOKEN, *fields, method="POST") + b"0\r\n\r\n" + hidden(ports).encode())


@of(TRIES)
def another_coding_than_chunks(draw, ports):
    coding = draw.choice(
        ("xchunked", "chunked, identity", "gzip, chunked", "\x0bchunked", "chunked;a", "chunked\t,", "")
    )
    return Try(head(ports, TOKEN, f"Transfer-Encoding: {coding}", method="GET") + b"0\r\n\r\n" + hidden(ports).encode())


@of(TRIES)
def two_lengths(draw, ports):
    lengths = draw.choice((("0", "5"), ("5", "5"), ("0", "0"), ("0,0", "0")))
    fields = [f"Content-Length: {length}" for length in lengths]
    return Try(head(ports, TOKEN, *fields) + hidden(ports).encode())


@of(TRIES)
def a_length_that_is_no_number(draw, ports):
    length = draw.choice(("+0", "-1", "0x0", "0 0", "0,0", "", "\u00b2", "1e0", "0_0", "9" * 40))
    return Try(head(ports, TOKEN, f"Content-Length: {length}") + hidden(ports).encode())


@of(TRIES)
def lines_that_end_otherwise(draw, ports):
    data = head(ports, TOKEN, "X-A: b", end=draw.choice(("\n", "\r", "\n\r", "\r\r\n")))
    return Try(data + b"\r\n\r\n")


@of(TRIES)
def folded_lines(draw, ports):
    fold = draw.choice((" ", "\t", "  \t"))
    return Try(head(ports, f"Authorization: Bearer\r\n{fold}{STAND_IN}"))


@of(TRIES)
def blanks_around_a_name(draw, ports):
    name = draw.choice(("Authorization ", "Authorization\t", " Authorization", "\tAuthorization", "Authorization\x0b"))
    return Try(head(ports, f"{name}: Bearer {STAND_IN}"))


@of(TRIES)
def control_characters(draw, ports):
    at, control = draw.randrange(len(STAND_IN)), draw.choice("\0\x01\x08\x0b\x0c\x1b\x7f\r")
    return Try(head(ports, f"Authorization: Bearer {STAND_IN[:at]}{control}{STAND_IN[at:]}", f"X: {control}"))


@of(TRIES)
def a_second_request_after_the_first(draw, ports):
    return Try(head(ports, path="/") + head(ports, TOKEN, path=draw.choice(("/user", PATH))))


@of(TRIES)
def a_request_in_the_body(draw, ports):
    body = hidden(ports)
    return Try(head(ports, f"Content-Length: {len(body)}", method="POST", path="/") + body.encode())


@of(TRIES)
def a_head_that_is_too_long(draw, ports):
    fields = draw.choice(([f"X-{n}: a" for n in range(140)], ["X: " + "a" * 40_000]))
    return Try(head(ports, *fields, TOKEN))


@of(TRIES)
def another_version(draw, ports):
    version = draw.choice(("HTTP/2.0", "HTTP/3", "HTTP/0.9", "HTTP/1.2", "http/1.1", "HTTP/1.10", "ICAP/1.0"))
    return Try(head(ports, TOKEN, version=version))


@of(TRIES)
def http_2_without_asking(draw, ports):
    return Try(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + STAND_IN.encode())


# The credential's place ----------------------------------------------------------------------------------------------


@of(TRIES)
def the_field_twice(draw, ports):
    second = draw.choice((f"Bearer {STAND_IN}", "Bearer x", f"Basic {base64.b64encode(b'a:b').decode()}"))
    fields = [TOKEN, f"{cased(draw, 'Authorization')}: {second}"]
    draw.shuffle(fields)
    return Try(head(ports, *fields))


@of(TRIES)
def another_field(draw, ports):
    name = draw.choice(("X-Auth", "Cookie", "Proxy-Authorization", "Authorization2", "X-Authorization", "Referer"))
    return Try(head(ports, f"{name}: Bearer {STAND_IN}"))


@of(TRIES)
def the_address(draw, ports):
    path = draw.choice(
        (f"{PATH}?token={STAND_IN}", f"/repos/acme/{STAND_IN}", f"{PATH}?Authorization=Bearer+{STAND_IN}")
    )
    return Try(head(ports, path=path))


@of(TRIES)
def the_body(draw, ports):
    body = draw.choice((f"token={STAND_IN}", f'{{"token": "{STAND_IN}"}}', STAND_IN))
    return Try(head(ports, f"Content-Length: {len(body)}", method="POST", path="/") + body.encode())


@of(TRIES)
def a_changed_stand_in(draw, ports):
    at = draw.randrange(len(STAND_IN))
    wrong = draw.choice(
        (STAND_IN[:at], STAND_IN[:at] + "%41" + STAND_IN[at + 1 :], STAND_IN.swapcase(), STAND_IN[::-1])
    )
    return Try(head(ports, f"Authorization: Bearer {wrong}"))


@of(TRIES)
def a_code_that_is_broken(draw, ports):
    coded = base64.b64encode(f"x:{STAND_IN}".encode()).decode()
    at = draw.randrange(1, len(coded))
    wrong = draw.choice(
        (coded[:at] + "*" + coded[at:], coded[: at // 4 * 4 + 1], base64.b64encode(coded.encode()).decode())
    )
    return Try(head(ports, f"Authorization: Basic {wrong}"))


# Beyond the leash ----------------------------------------------------------------------------------------------------


@of(TRIES)
def another_method(draw, ports):
    method = draw.choice(("POST", "PUT", "DELETE", "PATCH", "get", "GETT", "READ", "OPTIONS", "TRACE", "M-SEARCH"))
    return Try(head(ports, TOKEN, method=method))


@of(TRIES)
def a_field_that_changes_the_method(draw, ports):
    name = draw.choice(
        ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL")
    )
    return Try(head(ports, TOKEN, f"{cased(draw, name)}: {draw.choice(('DELETE', '/user'))}"))


@of(TRIES)
def another_path(draw, ports):
    path = draw.choice(("/user", "/repos/acm", "/repos/acmex/y", "/REPOS/acme/x", "/repos/acme", "/", "/repos"))
    return Try(head(ports, TOKEN, path=path))


@of(TRIES)
def a_path_that_is_read_in_two_ways(draw, ports):
    trick = draw.choice(
        (
            "..",
            "../..",
            "%2e%2e",
            "%2E.",
            ".%2e/x",
            "..%2f..",
            "..;/x",
            ";/../x",
            "..\\x",
            "%5c..",
            "./../x",
            "/../x",
            "%00",
        )
    )
    return Try(head(ports, TOKEN, path=f"/repos/acme/{trick}/user"))


@of(TRIES)
def a_fragment(draw, ports):
    return Try(head(ports, TOKEN, path=draw.choice((f"{PATH}#/../user", f"/user#{PATH}", f"{PATH}?a#b"))))


@of(TRIES)
def a_websocket(draw, ports):
    fields = ["Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    return Try(head(ports, TOKEN, f"Upgrade: {cased(draw, 'websocket')}", *fields))


@of(TRIES)
def another_protocol(draw, ports):
    protocol = draw.choice(("h2c", "TLS/1.3", "websocket, h2c", "connect-udp", "HTTP/2.0"))
    return Try(head(ports, TOKEN, "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAA", f"Upgrade: {protocol}"))


@of(TRIES)
def a_field_of_the_connection(draw, ports):
    return Try(head(ports, TOKEN, f"Connection: {cased(draw, 'authorization')}, close", method="DELETE"))


# What the host returns -----------------------------------------------------------------------------------------------


def forms(draw) -> bytes:
    """The value in one of the forms in which a host could return it."""
    shift = draw.randrange(3)
    coded = base64.b64encode(b"x" * shift + REAL.encode()).rstrip(b"=")
    return draw.choice((REAL.encode(), coded, f"a/{REAL}".encode(), json.dumps({"t": REAL}).encode()))


def answer(body: bytes, *fields: bytes, status=b"200 OK") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join((b"HTTP/1.1 " + status, *fields, length, b"", body))


@of(ANSWERS)
def the_value_in_a_body(draw):
    return answer(b"a" * draw.randrange(70_000) + forms(draw) + b"b" * draw.randrange(2000))


@of(ANSWERS)
def a_redirect_with_the_value(draw):
    code = draw.choice((b"301 A", b"302 A", b"303 A", b"307 A", b"308 A"))
    return answer(b"", b"Location: https://other.test/?t=" + forms(draw), status=code)


@of(ANSWERS)
def the_value_in_a_field(draw):
    name = draw.choice((b"Set-Cookie: t=", b"X-Debug: ", b"WWW-Authenticate: Bearer realm=", b"Link: <", b"ETag: "))
    return answer(b"ok", name + forms(draw))


@of(ANSWERS)
def the_value_as_the_name_of_a_field(draw):
    return answer(b"ok", draw.choice((REAL, REAL.lower(), f"X-{REAL}")).encode() + b": 1")


@of(ANSWERS)
def the_value_as_the_reason(draw):
    return answer(b"ok", status=b"200 " + REAL.encode())


@of(ANSWERS)
def a_split_answer(draw):
    end = draw.choice((b"\r", b"\n", b"\r\n"))
    second = answer(REAL.encode())
    return answer(b"ok", b"X-A: b" + end + draw.choice((b"", b" ", b"X-" + REAL.encode() + b": c")) + end) + second


@of(ANSWERS)
def a_second_answer(draw):
    return answer(b"ok") + answer(forms(draw))


@of(ANSWERS)
def a_compressed_body(draw):
    plain, deflater = b"x" * 100 + REAL.encode(), zlib.compressobj(wbits=-15)
    codings = {
        b"gzip": gzip.compress(plain),
        b"x-gzip": gzip.compress(plain),
        b"deflate": deflater.compress(plain) + deflater.flush(),
        b"identity, gzip": gzip.compress(plain),
        b"br": plain,
        b"GZIP": gzip.compress(plain),
    }
    coding = draw.choice(list(codings))
    return answer(codings[coding], b"Content-Encoding: " + coding)


@of(ANSWERS)
def a_compressed_transfer(draw):
    coding = draw.choice((b"gzip", b"gzip, chunked", b"deflate, chunked"))
    body = gzip.compress(REAL.encode())
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + coding + b"\r\n\r\n" + chunk


@of(ANSWERS)
def another_protocol_without_asking(draw):
    protocol = draw.choice((b"websocket", b"h2c"))
    return b"HTTP/1.1 101 A\r\nConnection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n" + REAL.encode()


@of(ANSWERS)
def an_early_answer_with_the_value(draw):
    code = draw.choice((b"100 Continue", b"102 A", b"103 Early Hints"))
    return b"HTTP/1.1 " + code + b"\r\nLink: <" + forms(draw) + b">\r\n\r\n" + answer(b"ok")


@of(ANSWERS)
def the_value_in_pieces(draw):
    text, out = b"a" * draw.randrange(9) + forms(draw), b""
    while text:
        size = draw.randrange(1, 6)
        out += b"%x%s\r\n%s\r\n" % (len(text[:size]), draw.choice((b"", b";x=" + REAL.encode())), text[:size])
        text = text[size:]
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + out + b"0\r\nX-T: " + forms(draw) + b"\r\n\r\n"
