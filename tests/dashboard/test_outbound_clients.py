"""Behind a company's proxy: each client of Handrail's own reaches its host by it, and the guards of addresses hold."""

import asyncio
import os
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from django.test import override_settings

from approvals.agent_runs.model_relay import forwarding, key_check
from approvals.agent_runs.model_relay.providers import PROVIDERS
from approvals.evaluation.context.addresses import redirects
from approvals.evaluation.decision_point import opa
from approvals.notify import channels
from approvals.notify import sending as push
from approvals.notify.log_targets import sending as log_targets
from approvals.protocols.aap import webhooks
from dashboard.database import clock
from dashboard.net import outbound, standard_webhooks
from dashboard.net.upstream import Upstream, read_no_proxy, read_proxy
from dashboard.ops import upstream_proxy
from dashboard.site.sso.adapter import SingleSignOnAdapter
from dashboard.workers.outbox import NotSent
from tests.support.company_proxy import CompanyProxy
from tests.workspaces.egress.grounds import OPEN, Server, certificate, read_request
from workspaces.code_hosts.client import Client
from workspaces.egress.addresses import read_networks
from workspaces.provisioning.git.addresses import check_git
from workspaces.provisioning.git.fetching import Ending, requested
from workspaces.provisioning.git.running import LOCAL, environment_for, git_in, pin
from workspaces.services import outbound as guard
from workspaces.services.outbound import Unreachable, only_reachable, only_reachable_in_task

NAME = "only.known.to.the.proxy.example"
USER = "Basic bWU6cEBzcw=="


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"), NAME, "localhost")


def answer_json(sock, got):
    head = read_request(sock, got)
    if found := re.search(rb"(?i)content-length: (\d+)", head):
        left = int(found[1]) - len(head.partition(b"\r\n\r\n")[2])
        while left > 0:
            part = sock.recv(left)
            got += part
            left -= len(part)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n")
    if not head.startswith(b"HEAD"):
        sock.sendall(b'{"result": {} }')


@pytest.fixture
def server(made, tls):
    return made(Server(tls=tls[0], talk=answer_json))


@pytest.fixture
def company(made, server, tls):
    """The proxy, set up for this process, and the only one that knows the server's name."""
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, wants=USER))
    with override_settings(HANDRAIL_UPSTREAM=by(company, tls[1])):
        yield company


@pytest.fixture
def near(settings):
    """The guard holds for the whole process, and the servers of these tests are in it."""
    settings.HANDRAIL_NOTIFY_NETWORKS = read_networks("127.77.0.0/16")


def by(company, trusted="", no_proxy="", user="me:p%40ss") -> Upstream:
    return Upstream(read_proxy(company.address(user)), read_no_proxy(no_proxy), str(trusted))


def is_tunnelled(company) -> bool:
    return company.asked == [f"CONNECT {NAME}:443"] and company.shown == [USER]


def test_the_model_relay(company, server):
    key = "sk-" + "k" * 40
    with override_settings(HANDRAIL_MODEL_UPSTREAMS={"anthropic": f"https://{NAME}"}):
        path, _body = PROVIDERS["anthropic"].smallest("claude")
        request = forwarding.Request(PROVIDERS["anthropic"], path, key, {}, b"{}")
        assert asyncio.run(key_check._ask(request, "claude")).is_good
        sent = []

        async def send(message):
            sent.append(message)

        async def exchange():
            await forwarding._answer(request, forwarding.Exchange(PROVIDERS["anthropic"], None), send)

        asyncio.run(exchange())
    assert sent[0]["status"] == 200
    assert company.asked == [f"CONNECT {NAME}:443"] * 2
    assert key.encode() in server.got


def test_a_code_host(company):
    async def call():
        async with Client(("127.0.0.9",)) as client:
            return await client.call("GET", f"https://{NAME}/api", headers={"Authorization": "Bearer t"})

    assert asyncio.run(call()) == (200, {"result": {}})
    assert is_tunnelled(company)


def test_a_webhook_of_the_approval_protocol(company, server):
    secret = standard_webhooks.make_secret()
    asyncio.run(webhooks.deliver(f"https://{NAME}/hook?a=%2F", secret, {"id": "1"}, clock.now()))
    assert is_tunnelled(company)
    assert server.got.startswith(b"POST /hook?a=%2F HTTP/1.1")


def test_push_and_log_targets(company, server, near):
    with only_reachable():
        push._post(f"https://{NAME}/push", b"x", {"TTL": "1"})
    log_targets._post(f"https://{NAME}/log", b"{}", {})
    assert company.asked == [f"CONNECT {NAME}:443"] * 2
    assert b"POST /push" in server.got
    assert b"POST /log" in server.got


def test_syslog_over_tls(made, tls, near):
    def read_to_the_end(sock, got):
        while part := sock.recv(100):
            got += part

    server = made(Server(tls=tls[0], talk=read_to_the_end))
    company = made(CompanyProxy({NAME: (OPEN, server.port)}))
    with override_settings(HANDRAIL_UPSTREAM=by(company, tls[1], user="")):
        log_targets._to_socket(f"tls://{NAME}:6514", b"a line\n")
    assert company.asked == [f"CONNECT {NAME}:6514"]
    assert bytes(server.got) == b"a line\n"


def test_channels_of_people(company, server, near):
    plugin = channels._plugin(f"ntfys://{NAME}/topic")
    with only_reachable():
        assert plugin.notify(title="A", body="B")
    assert is_tunnelled(company)


def test_the_identity_provider(company):
    with SingleSignOnAdapter().get_requests_session() as session:
        assert session.get(f"https://{NAME}/.well-known/openid-configuration").json() == {"result": {}}
    assert is_tunnelled(company)


def test_a_decision_point(company):
    assert opa._post(f"https://{NAME}/v1/data/x", b"{}", 10) == (200, b'{"result": {} }')
    assert is_tunnelled(company)


def test_where_a_page_redirects(company):
    assert redirects(f"https://{NAME}/page", OPEN) == []
    assert is_tunnelled(company)


def test_files_of_a_git_source(company):
    source = check_git(f"https://{NAME}/a.git")
    assert source.pinned == ()
    with requested(source, "GET", {}, Ending(time.monotonic() + 20)) as response:
        assert response.status == 200
    assert is_tunnelled(company)


def test_git_itself(company, server, tmp_path):
    source = check_git(f"https://{NAME}/a.git")
    env = environment_for(source)
    with git_in(tmp_path) as git:
        git(*pin(source), "ls-remote", "--", source.address, env=env, check=False)
    assert company.asked[0] == f"CONNECT {NAME}:443"
    assert company.shown[-1] == USER
    assert b"GET /a.git/info/refs?service=git-upload-pack" in server.got
    assert not {"HTTPS_PROXY", "https_proxy"} & set(LOCAL)


def test_programs_that_are_installed_from_npm(company):
    given = outbound.variables()
    assert given["HTTPS_PROXY"] == given["https_proxy"] == company.address("me:p%40ss")
    assert given["NODE_EXTRA_CA_CERTS"] == outbound.upstream().authorities
    bundle = Path(given["SSL_CERT_FILE"]).read_text()
    assert Path(outbound.upstream().authorities).read_text().strip() in bundle
    assert bundle.count("BEGIN CERTIFICATE") > 50  # with this machine's own


def test_a_proxy_that_speaks_tls_itself(made, server, tls):
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, tls=tls[0]))
    with override_settings(HANDRAIL_UPSTREAM=by(company, tls[1], user="")):
        assert outbound.session().get(f"https://{NAME}/", timeout=10).json() == {"result": {}}
        assert opa._post(f"https://{NAME}/v1/data/x", b"{}", 10)[0] == 200
    assert company.asked == [f"CONNECT {NAME}:443"] * 2


def test_plain_addresses_are_given_to_the_proxy_whole(made, tls):
    server = made(Server(talk=answer_json))
    company = made(CompanyProxy({NAME: (OPEN, server.port)}, wants=USER))

    async def call():
        async with Client() as client:
            return await client.call("GET", f"http://{NAME}/api", headers={})

    with override_settings(HANDRAIL_UPSTREAM=by(company)):
        assert outbound.session().get(f"http://{NAME}/x", timeout=10).status_code == 200
        assert asyncio.run(call())[0] == 200
    assert company.asked == [f"GET http://{NAME}/x", f"GET http://{NAME}/api"]


def test_an_exception_goes_straight(made, tls):
    server = made(Server(tls=tls[0], talk=answer_json))
    company = made(CompanyProxy({}))
    with override_settings(HANDRAIL_UPSTREAM=by(company, tls[1], no_proxy=f"{OPEN},*.example")):
        with outbound.connect(OPEN, server.port, 5):
            pass
        with pytest.raises(requests.ConnectionError):  # no name server here knows it
            outbound.session().get(f"https://{NAME}/", timeout=5)
    assert company.asked == []


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest", "https://10.0.0.1/", "http://localhost.test/"])
def test_private_addresses_are_not_named_to_the_proxy_for_what_people_typed(company, address, monkeypatch):
    real = guard.getaddrinfo
    told = [(2, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(guard, "getaddrinfo", lambda h, *a, **k: told if h == "localhost.test" else real(h, *a, **k))
    with pytest.raises(NotSent, match="private or special"):
        _guarded_post(address)
    assert company.asked == []


def _guarded_post(address):
    with only_reachable():
        push._post(address, b"", {})


def test_a_guarded_task_may_reach_the_proxy_and_nothing_private_beside_it(company, server):
    with only_reachable_in_task() as watched:
        assert outbound.connect(NAME, 443, 5).close() is None
        assert not watched.refused
        with pytest.raises(Unreachable):
            outbound.connect("10.0.0.1", 443, 5)
    assert watched.refused


@pytest.mark.django_db
def test_doctor_tries_the_proxy_and_each_host(company):
    with override_settings(HANDRAIL_MODEL_UPSTREAMS={"anthropic": f"https://{NAME}"}):
        found = {one.part: one for one in upstream_proxy.findings()}
    assert found["upstream proxy"].ok
    assert found[f"upstream proxy: {NAME}"].ok
    refused = found["upstream proxy: api.openai.com"]
    assert (refused.ok, refused.needed) == (False, False)
    assert "refused the connection: 403 Not for you" in refused.words
    assert "p%40ss" not in str(found)


@pytest.mark.django_db
def test_doctor_says_what_is_wrong_with_it(made, tls, server):
    gone = CompanyProxy({})
    gone.close()
    with override_settings(HANDRAIL_UPSTREAM=by(gone)):
        (found,) = upstream_proxy.findings()
    assert (found.ok, "does not answer" in found.words) == (False, True)
    opens_tls = made(CompanyProxy({NAME: (OPEN, server.port)}))
    with override_settings(HANDRAIL_UPSTREAM=by(opens_tls, user="")):
        with override_settings(HANDRAIL_MODEL_UPSTREAMS={"anthropic": f"https://{NAME}"}):
            found = {one.part: one for one in upstream_proxy.findings()}
    assert "Its certificate is not trusted" in found[f"upstream proxy: {NAME}"].words


def test_no_proxy_no_difference():
    with override_settings(HANDRAIL_UPSTREAM=Upstream()):
        assert asyncio.run(outbound.aiohttp_options("https://example.org/")) == {}
        assert outbound.variables() == {}
        assert outbound.variables("example.org") == {}
        assert outbound.session().trust_env
        assert upstream_proxy.findings() == []
        assert isinstance(outbound.tls(), ssl.SSLContext)


def test_a_start_with_a_wrong_proxy_does_not_print_its_password(tmp_path):
    env = os.environ | {"HANDRAIL_UPSTREAM_PROXY": "ftp://me:hunter2@proxy", "HANDRAIL_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import dashboard.settings"], env=env, capture_output=True, text=True, check=False
    )
    assert "HANDRAIL_UPSTREAM_PROXY must be the address of a proxy" in done.stderr
    assert "hunter2" not in done.stderr
