"""A workspace behind a company's proxy: CONNECT through CONNECT, plain requests, passwords, and what stays refused."""

import ssl

import pytest

from dashboard.net.upstream import Upstream, read_no_proxy, read_proxy
from tests.support.company_proxy import CompanyProxy
from tests.workspaces.egress.grounds import OPEN, Running, Server, Site, certificate

NAME = "allowed.test"
USER = "Basic bWU6cEBzcw=="


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def behind(made):
    """`behind(company, rules…)`: our proxy, with this one before it."""

    def start(company, *rules, user="", names=None, no_proxy="", authorities=""):
        upstream = Upstream(read_proxy(company.address(user)), read_no_proxy(no_proxy), str(authorities))
        return made(Running(Site(*rules), {NAME: [OPEN]} if names is None else names, upstream=upstream))

    return start


def hello_over_tls(running, port, trusted, name=NAME) -> bytes:
    context = ssl.create_default_context(cafile=trusted)
    with context.wrap_socket(running.tunnel(name, port), server_hostname=name) as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        return sock.recv(65536)


def connect(port: int) -> bytes:
    return f"CONNECT {NAME}:{port} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n".encode()


def plain(running, port, name=NAME) -> bytes:
    return running.say(f"GET http://{name}:{port}/a?b HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())


def test_tls_passes_by_a_tunnel_in_a_tunnel_with_the_name(made, behind, tmp_path):
    tls, trusted = certificate(tmp_path, NAME)
    server = made(Server(tls=tls))
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, wants=USER))
    running = behind(company, f"{NAME}:{server.port}", user="me:p%40ss")
    assert hello_over_tls(running, server.port, trusted).endswith(b"hello")
    assert company.asked == [f"CONNECT {NAME}:{server.port}"]
    assert company.shown == [USER]
    assert b"Proxy-Authorization" not in server.got


def test_a_plain_request_is_given_to_the_proxy_as_a_whole_address(made, behind):
    server = made(Server())
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, wants=USER))
    running = behind(company, f"{NAME}:{server.port}", user="me:p%40ss")
    assert plain(running, server.port).endswith(b"hello")
    assert company.asked == [f"GET http://{NAME}:{server.port}/a?b"]


def test_a_proxy_with_tls_of_its_own_is_spoken_to_in_it(made, behind, tmp_path):
    tls, trusted = certificate(tmp_path, NAME, "localhost")
    server = made(Server(tls=tls))
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, tls=tls))
    distrusted = behind(company, f"{NAME}:{server.port}")
    assert b"is not one that is trusted here" in distrusted.say(connect(server.port))
    plain_company = made(CompanyProxy({NAME: (OPEN, server.port)}, tls=tls))
    running = behind(plain_company, f"{NAME}:{server.port}", authorities=trusted)
    heard = running.say(f"GET http://{NAME}:{server.port}/ HTTP/1.1\r\nHost: {NAME}:{server.port}\r\n\r\n".encode())
    assert plain_company.asked == [f"GET http://{NAME}:{server.port}/"], heard


def test_a_name_that_only_the_proxy_knows_is_left_to_it(made, behind):
    server = made(Server())
    company = made(CompanyProxy({NAME: (OPEN, server.port)}))
    running = behind(company, f"{NAME}:{server.port}", names={})
    assert plain(running, server.port).endswith(b"hello")


def test_a_name_that_leads_to_a_private_address_is_refused_as_ever(made, behind):
    server = made(Server())
    company = made(CompanyProxy({NAME: (OPEN, server.port)}))
    running = behind(company, f"{NAME}:{server.port}", names={NAME: ["10.0.0.1"]})
    assert b"the name leads to a private or special address" in plain(running, server.port)
    assert (company.asked, bytes(server.got)) == ([], b"")


def test_a_host_that_is_not_on_the_list_is_not_named_to_the_proxy(made, behind):
    server = made(Server())
    company = made(CompanyProxy({NAME: (OPEN, server.port)}))
    running = behind(company, "other.test")
    assert b"it is not on the list" in plain(running, server.port)
    assert company.asked == []


def test_an_exception_goes_straight(made, behind):
    server = made(Server())
    company = made(CompanyProxy({}))
    for rules in (NAME, "127.77.0.0/16"):
        running = behind(company, f"{NAME}:{server.port}", no_proxy=rules)
        assert plain(running, server.port).endswith(b"hello")
    assert company.asked == []


@pytest.mark.parametrize(
    ("options", "user", "words"),
    [
        ({"wants": USER}, "me:wrong", b"wants other credentials (407)"),
        ({"refuses": [NAME]}, "", b"refused the connection: 403 Not for you"),
    ],
)
def test_what_the_proxy_refuses_is_said_without_its_password(made, behind, options, user, words):
    server = made(Server())
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, **options))
    running = behind(company, f"{NAME}:{server.port}", user=user)
    heard = running.say(connect(server.port))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert words in heard
    assert b"wrong" not in heard
    assert running.site.verdicts[0][:2] == ("blocked", NAME)
    assert bytes(server.got) == b""


def test_a_proxy_that_is_gone_is_said(made, behind):
    company = CompanyProxy({})
    company.close()
    running = behind(company, NAME)
    assert b"does not answer" in plain(running, 80)
