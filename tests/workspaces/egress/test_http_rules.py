"""Rules by method and path: TLS is opened to the host, what they cover passes, and any other request is held open."""

import asyncio
import hashlib
import json
import re
import socket
import ssl
from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.egress.grounds import OPEN, Running, Server, Site, certificate, read_request
from tests.workspaces.egress.leashes import NAME, REAL, STAND_IN, Leashes, inside_tls
from workspaces.egress.http_rules import PRESETS, read_line, read_lines, scopes_at
from workspaces.egress.leash import READ
from workspaces.egress.names import BadName
from workspaces.egress.registries import REGISTRIES

JSON = "Content-Type: application/json\r\n"


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"), NAME)


@pytest.fixture
def ruled(made, tls, tmp_path):
    """`ruled(words, …)`: (the proxy, its leashes, a server with or without TLS), where the line is HOST:PORT words."""

    def start(*words, hosts=(), plain=False, talk=hello_after_the_body, **options):
        server = made(Server(tls=None if plain else tls[0], talk=talk))
        lines = [f"{NAME}:{server.port} {one}" for one in words]
        leashed = [{"host": f"{NAME}:{server.port}", **one} for one in hosts]
        leashes = Leashes(tmp_path, tls[1], leashed, rules=lines, **options)
        running = made(Running(Site(f"{NAME}:{server.port}"), {NAME: [OPEN]}, leashes=leashes))
        return running, leashes, server

    return start


def hello_after_the_body(sock, got):
    head, _, body = read_request(sock, got).partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        part = sock.recv(65536)
        got += part
        body += part
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def request(port, method="GET", path="/", more="", body=""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {NAME}:{port}\r\n{more}{length}\r\n{body}".encode()


def plain_request(port, method="GET", path="/", more=""):
    return f"{method} http://{NAME}:{port}{path} HTTP/1.1\r\nHost: {NAME}:{port}\r\n{more}\r\n".encode()


# Lines ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("API.GitHub.com", "api.github.com"),
        ("*.example.org:8443", "*.example.org:8443"),
        ("api.github.com get,post /repos/acme/*", "api.github.com GET,HEAD,POST /repos/acme/*"),
        ("api.github.com /repos/* /user", "api.github.com GET,HEAD /repos/* /user"),
        ("api.github.com:8443   READ", "api.github.com:8443 READ /*"),
        ("api.github.com *", "api.github.com * /*"),
    ],
)
def test_a_line_is_kept_in_one_form(text, kept):
    assert str(read_line(text)) == kept
    assert str(read_line(kept)) == kept


@pytest.mark.parametrize(
    "lines",
    [
        ["*.example.org GET"],
        ["example.org GET repos"],
        ["example.org G3T"],
        ["example.org GET /a/../b"],
        ["127.0.0.1 GET"],
        ["example.org", "example.org GET"],
        ["@nothing"],
    ],
)
def test_a_line_that_means_nothing_is_refused(lines):
    with pytest.raises(BadName):
        read_lines(lines)


def test_presets_are_written_out_and_only_read():
    found = read_lines(PRESETS)
    assert {tuple(line.scope.methods) for line in found} == {(READ,)}
    assert f"{REGISTRIES['npm'][0]} READ /*" in map(str, found)
    setup = read_lines(["@registries"], opens=False)
    assert [str(line) for line in setup[:1]] == [REGISTRIES["npm"][0]]
    with pytest.raises(BadName, match="for the agent alone"):
        read_lines(["example.org GET"], opens=False)


def test_a_host_with_methods_is_opened_whatever_other_line_names_it():
    lines = read_lines(["*.example.org", "api.example.org READ", "api.example.org POST /hooks/*"])
    assert len(scopes_at(lines, "api.example.org", 443)) == 2
    assert len(scopes_at(lines, "api.example.org", 80)) == 2
    assert scopes_at(lines, "api.example.org", 8443) == ()
    assert scopes_at(lines, "www.example.org", 443) == ()


# Requests ------------------------------------------------------------------------------------------------------------


def test_what_a_rule_covers_passes_in_tls_that_is_opened(ruled):
    running, leashes, server = ruled("READ", "POST /hooks/*")
    assert inside_tls(running, leashes, server.port, request(server.port)).endswith(b"hello")
    posted = request(server.port, "POST", "/hooks/a", body="x")
    assert inside_tls(running, leashes, server.port, posted).endswith(b"hello")
    assert leashes.asked == []


@pytest.mark.parametrize("verdict", ["", "mia: Not today."])
def test_what_none_covers_is_held_for_a_person(ruled, verdict):
    running, leashes, server = ruled("READ", answers=[verdict])
    heard = inside_tls(running, leashes, server.port, request(server.port, "PUT", "/pkg?tag=1", body="tarball"))
    asked = leashes.asked[0]
    assert (asked.credential, asked.method, asked.path, asked.query) == (None, "PUT", "/pkg", "tag=1")
    assert asked.body_bytes == 7
    assert asked.body_sha256 == hashlib.sha256(b"tarball").hexdigest()
    if verdict:
        assert heard.startswith(b"HTTP/1.1 403 ")
        assert verdict.encode() in heard
        assert bytes(server.got) == b""
        assert ("blocked", NAME, "PUT is not covered by the environment's rules") in running.site.verdicts
    else:
        assert heard.endswith(b"hello")
        assert server.got.startswith(b"PUT /pkg?tag=1 HTTP/1.1\r\n")


def test_rules_that_were_removed_still_hold_in_a_tunnel_of_before(ruled):
    running, leashes, server = ruled("READ")
    context = ssl.create_default_context(cafile=leashes.trusted)
    with context.wrap_socket(running.tunnel(NAME, server.port), server_hostname=NAME) as sock:
        leashes.rules = read_lines([])
        sock.sendall(request(server.port, "DELETE", "/pkg"))
        assert sock.recv(65536).startswith(b"HTTP/1.1 403 ")
    assert [use.method for use in leashes.asked] == ["DELETE"]
    assert bytes(server.got) == b""


def test_plain_http_is_held_to_them_as_well(ruled):
    running, leashes, server = ruled("GET", plain=True, answers=["Nobody allowed it.", ""])
    assert running.say(plain_request(server.port)).endswith(b"hello")
    assert running.say(plain_request(server.port, "DELETE")).startswith(b"HTTP/1.1 403 ")
    tunnel = running.say(
        f"CONNECT {NAME}:{server.port} HTTP/1.1\r\nHost: {NAME}:{server.port}\r\n\r\n".encode(),
        then=request(server.port, "DELETE", "/second"),
    )
    assert tunnel.endswith(b"hello")
    assert [(use.method, use.path) for use in leashes.asked] == [("DELETE", "/"), ("DELETE", "/second")]
    assert bytes(server.got).count(b"DELETE") == 1


@pytest.mark.parametrize(
    "more", ["X-HTTP-Method-Override: DELETE\r\n", "Upgrade: websocket\r\nConnection: upgrade\r\n"]
)
def test_a_field_that_changes_what_was_checked_is_refused(ruled, more):
    running, leashes, server = ruled("*")
    heard = inside_tls(running, leashes, server.port, request(server.port, more=more))
    assert heard.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert bytes(server.got) == b""


def test_a_query_of_graphql_reads_and_a_mutation_is_named_to_the_person(ruled):
    running, leashes, server = ruled("READ", answers=[""])
    for query in ("{ viewer { login } }", "mutation { closeIssue { id } }"):
        body = json.dumps({"query": query})
        heard = inside_tls(running, leashes, server.port, request(server.port, "POST", "/graphql", JSON, body))
        assert heard.endswith(b"hello")
    assert [use.writes for use in leashes.asked] == ["GraphQL mutation closeIssue"]


def test_answers_may_be_compressed_where_no_credential_could_be_in_them(ruled):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\x00")

    running, leashes, server = ruled("GET", talk=talk)
    heard = inside_tls(running, leashes, server.port, request(server.port, more="Accept-Encoding: gzip\r\n"))
    assert heard.endswith(b"\x1f\x8b\x00\x00")
    assert b"accept-encoding: gzip" in server.got


def test_a_program_that_goes_away_is_not_sent_for(ruled):
    running, leashes, server = ruled("GET", plain=True)
    gone = []

    async def ask(use):
        leashes.asked.append(use)
        try:
            await asyncio.Event().wait()
        finally:
            gone.append(use)

    leashes.ask = ask
    with socket.create_connection(running.address) as sock:
        sock.sendall(plain_request(server.port, "DELETE"))
        until(lambda: leashes.asked)
    until(lambda: gone)
    assert bytes(server.got) == b""


# With a credential ---------------------------------------------------------------------------------------------------


def shown(port, method):
    return request(port, method, "/repos/acme/x", f"Authorization: Bearer {STAND_IN}\r\n")


def test_a_use_is_asked_about_once_although_neither_covers_it(ruled):
    running, leashes, server = ruled("GET", hosts=[{"methods": ["GET"]}], answers=[""])
    assert inside_tls(running, leashes, server.port, shown(server.port, "DELETE")).startswith(b"HTTP/1.1 200 ")
    assert [use.credential.name for use in leashes.asked] == ["github"]
    assert REAL.encode() in server.got


def test_a_use_within_the_leash_is_held_to_the_rules_as_well(ruled):
    running, leashes, server = ruled("GET", hosts=[{"methods": ["*"]}])
    assert inside_tls(running, leashes, server.port, shown(server.port, "DELETE")).startswith(b"HTTP/1.1 403 ")
    assert [use.credential for use in leashes.asked] == [None]
    assert (leashes.uses, bytes(server.got)) == ([], b"")


@pytest.mark.parametrize("change", ["deleted", "replaced", "narrowed"])
def test_a_credential_is_put_in_as_it_is_when_the_answer_about_the_rules_comes(ruled, change):
    running, leashes, server = ruled("GET", hosts=[{"methods": ["*"]}])
    new = "ghp_NewNewNewNewNewNewNewNewNewNew5678"

    async def answered_after_a_change(use):
        leashes.asked.append(use)
        hosts = {"deleted": (), "narrowed": (replace(leashes.credential.hosts[0], methods=frozenset(("GET",))),)}
        value = new if change == "replaced" else REAL
        leashes.credential = replace(leashes.credential, value=value, hosts=hosts.get(change, leashes.credential.hosts))
        return "Not with it." if use.credential else ""

    leashes.ask = answered_after_a_change
    heard = inside_tls(running, leashes, server.port, shown(server.port, "DELETE"))
    assert [use.credential and use.credential.name for use in leashes.asked] == (
        [None, "github"] if change == "narrowed" else [None]
    )
    if change == "replaced":
        assert f"Bearer {new}".encode() in server.got
    else:
        words = {"deleted": "The credential github is not set for", "narrowed": "Not with it."}[change]
        assert words.encode() in heard
        assert bytes(server.got) == b""
        assert leashes.uses == []


def test_a_leash_of_what_only_reads_tells_queries_from_mutations(ruled):
    running, leashes, server = ruled(hosts=[{"methods": ["READ"]}], answers=["No."])
    for query in ("{ viewer { login } }", "mutation { closeIssue { id } }"):
        body, more = json.dumps({"query": query}), JSON + f"Authorization: bearer {STAND_IN}\r\n"
        inside_tls(running, leashes, server.port, request(server.port, "POST", "/graphql", more, body))
    assert leashes.uses == [("POST", "/graphql")]
    assert [(use.credential.name, use.writes) for use in leashes.asked] == [("github", "GraphQL mutation closeIssue")]
    assert server.got.count(REAL.encode()) == 1
