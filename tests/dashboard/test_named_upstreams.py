"""Proxies that environments name: read from a file, used by their workspaces alone, and tried by doctor."""

import ssl

import pytest
from django.test import override_settings

from dashboard.net import outbound
from dashboard.net.upstream import Upstream, read_named, read_no_proxy, read_proxy
from dashboard.ops import upstream_proxy
from dashboard.problems import Problem
from tests.support.company_proxy import CompanyProxy
from tests.workspaces.egress.grounds import OPEN, Server, certificate
from workspaces.drivers.base import DriverError
from workspaces.models import Environment, Workspace
from workspaces.runner import leashes
from workspaces.services.environments import fields

NAME = "only.known.to.the.lab.example"


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def tls(tmp_path):
    return certificate(tmp_path, NAME)


def test_a_file_names_proxies(tmp_path, tls):
    file = tmp_path / "upstreams.toml"
    file.write_text(f'[lab]\nproxy = "http://me:pw@p.example"\nno_proxy = "a.example"\nca = "{tls[1]}"\n[straight]\n')
    found = read_named(str(file))
    assert found["lab"] == Upstream(read_proxy("http://me:pw@p.example"), read_no_proxy("a.example"), str(tls[1]))
    assert found["straight"] == Upstream()
    assert read_named("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lab", "no file of TOML"),
        ("lab = 1", "no table"),
        ("[LAB]", "no table"),
        ("[lab]\nproxies = ''", "no table"),
        ("[lab]\nproxy = 1", "no table"),
        ("[lab]\nproxy = 'ftp://me:hunter2@p'", "lab: it begins with http"),
        ("[lab]\nproxy = 'http://p.example/proxy.pac'", "lab: a proxy auto-config file"),
        ("[lab]\nno_proxy = '!'", "lab: '!' is no host"),
        ("[lab]\nca = '/nowhere'", "lab: there is no such file"),
    ],
)
def test_a_file_that_means_nothing_is_refused_without_its_passwords(tmp_path, text, words):
    (tmp_path / "upstreams.toml").write_text(text)
    with pytest.raises(ValueError, match=words) as refused:
        read_named(str(tmp_path / "upstreams.toml"))
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_gone_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no file of TOML"):
        read_named(str(tmp_path / "none.toml"))


@pytest.mark.django_db
def test_an_environment_names_one_of_them(team):
    with override_settings(HANDRAIL_UPSTREAMS={"lab": Upstream()}):
        assert fields.checked({"upstream": "lab"}, None, team)["upstream"] == "lab"
        with pytest.raises(Problem, match="HANDRAIL_UPSTREAMS"):
            fields.checked({"upstream": "other"}, None, team)


@pytest.mark.django_db
def test_its_workspaces_leave_by_it_and_trust_its_authorities(team, tls):
    lab = Upstream(read_proxy("http://p.example"), (), str(tls[1]))
    workspace = Workspace(team=team, environment=Environment(team=team, name="in-the-lab"))
    assert leashes.upstream_of(workspace) == Upstream()
    assert leashes.trust_of(workspace) == ({}, {})
    workspace.environment.upstream = "lab"
    with override_settings(HANDRAIL_UPSTREAMS={"lab": lab}):
        assert leashes.upstream_of(workspace) is lab
        files, names = leashes.trust_of(workspace)
    assert tls[1].read_bytes().strip() in files["handrail/trust.pem"]
    assert names["SSL_CERT_FILE"] == "/etc/handrail/trust.pem"
    assert "-Djavax.net.ssl.trustStore=/etc/handrail/trust.p12" in names["JAVA_TOOL_OPTIONS"]
    with pytest.raises(DriverError, match="names the proxy lab, which HANDRAIL_UPSTREAMS lacks here"):
        leashes.upstream_of(workspace)


@pytest.mark.django_db
def test_doctor_tries_each_by_the_hosts_that_environments_list(made, team, tls):
    server = made(Server(tls=tls[0]))
    proxy = made(CompanyProxy({NAME: (OPEN, server.port)}))
    gone = CompanyProxy({})
    gone.close()
    lab = Upstream(read_proxy(proxy.address("")), (), str(tls[1]))
    lists = {"agent": [NAME, "*.example.org", "refused.example READ"]}
    Environment.objects.create(team=team, name="in-the-lab", upstream="lab", egress=lists)
    named = {"lab": lab, "gone": Upstream(read_proxy(gone.address("")))}
    with override_settings(HANDRAIL_UPSTREAMS=named):
        found = {one.part: one.ok for one in upstream_proxy.findings()}
    assert found == {
        "upstream proxy lab": True,
        f"upstream proxy lab: {NAME}": True,
        "upstream proxy lab: refused.example": False,
        "upstream proxy gone": False,
    }
    assert proxy.asked == [f"CONNECT {NAME}:443", "CONNECT refused.example:443"]


def test_contexts_of_two_proxies_trust_different_authorities(tls):
    assert isinstance(outbound.tls(Upstream(authorities=str(tls[1]))), ssl.SSLContext)
    assert outbound.tls(Upstream(authorities=str(tls[1]))) is not outbound.tls(Upstream())
