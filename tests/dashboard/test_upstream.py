"""The company's proxy in the settings: how its address, its exceptions and its authorities are read."""

import pytest

from dashboard.net.upstream import Upstream, read_authorities, read_no_proxy, read_proxy

PROXY = read_proxy("http://proxy.example:8080")


def goes_by_proxy(rules: str, host: str, port: int = 443, *addresses: str) -> bool:
    return Upstream(PROXY, read_no_proxy(rules)).on_the_way_to(host, port, addresses) is PROXY


@pytest.mark.parametrize(
    ("text", "shown", "authorization"),
    [
        ("http://proxy.example:8080", "http://proxy.example:8080", ""),
        ("proxy.example:8080", "http://proxy.example:8080", ""),
        ("http://proxy.example", "http://proxy.example:3128", ""),
        ("https://proxy.example/", "https://proxy.example:443", ""),
        ("http://[fd00::5]:3128", "http://[fd00::5]:3128", ""),
        ("http://me:p%40ss@proxy.example:1", "http://proxy.example:1", "Basic bWU6cEBzcw=="),
    ],
)
def test_an_address_is_read(text, shown, authorization):
    proxy = read_proxy(text)
    assert (proxy.shown, proxy.authorization) == (shown, authorization)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://wpad.example/proxy.pac", "PAC"),
        ("http://wpad.example/wpad.dat", "PAC"),
        ("pac+http://wpad.example/", "PAC"),
        ("file:///etc/proxy.pac", "PAC"),
        ("socks5://proxy.example:1080", "SOCKS"),
        ("ftp://proxy.example", "http:// or https://"),
        ("http://", "a host follows"),
        ("http://me:secret", "a number from 1 to 65535"),
        ("http://proxy.example:0", "a number from 1 to 65535"),
        ("http://proxy.example:70000", "a number from 1 to 65535"),
        ("http://proxy.example:8080/path", "nothing follows"),
        ("http://me:p@ss@proxy.example:1", "%40"),
        ("http://me:secret%0d%0aX@proxy.example", "line break"),
    ],
)
def test_what_is_no_proxy_is_refused_in_words_without_the_password(text, why):
    with pytest.raises(ValueError, match=why) as refused:
        read_proxy(text)
    assert "secret" not in str(refused.value)


def test_its_password_is_in_no_representation():
    proxy = read_proxy("http://me:hunter2@proxy.example:1")
    assert "hunter2" not in repr(Upstream(proxy)) + str(proxy) + proxy.shown


@pytest.mark.parametrize(
    ("rules", "host", "port"),
    [
        ("example.org", "example.org", 443),
        ("example.org", "deep.example.org", 443),
        (".example.org", "deep.example.org", 443),
        ("*.example.org", "deep.example.org", 443),
        ("EXAMPLE.org", "Example.ORG.", 443),
        ("other.test, example.org", "example.org", 443),
        ("other.test example.org", "example.org", 443),
        ("example.org:8443", "example.org", 8443),
        ("10.0.0.0/8", "10.1.2.3", 443),
        ("10.1.2.3", "10.1.2.3", 80),
        ("fd00::/8", "[fd00::1]", 443),
        ("[fd00::1]:8443", "fd00::1", 8443),
        ("*", "anything.test", 443),
        ("", "localhost", 443),
        ("", "127.0.0.1", 443),
        ("", "app.localhost", 443),
    ],
)
def test_what_a_rule_names_goes_straight(rules, host, port):
    assert not goes_by_proxy(rules, host, port)


@pytest.mark.parametrize(
    ("rules", "host", "port"),
    [
        ("", "example.org", 443),
        ("example.org", "notexample.org", 443),
        ("example.org", "example.org.evil.test", 443),
        ("example.org:8443", "example.org", 443),
        ("10.0.0.0/8", "11.0.0.1", 443),
        ("10.0.0.0/8", "intern.test", 443),
        ("fd00::/8", "10.0.0.1", 443),
    ],
)
def test_everything_else_goes_by_the_proxy(rules, host, port):
    assert goes_by_proxy(rules, host, port)


def test_a_network_also_means_names_that_are_in_it():
    assert not goes_by_proxy("10.0.0.0/8", "intern.test", 443, "10.0.0.7")


@pytest.mark.parametrize("rules", ["exa mple/..", "example.org:0", "example.org:70000", "10.0.0.0/99", "a:b:c"])
def test_a_rule_that_means_nothing_is_refused(rules):
    with pytest.raises(ValueError, match="is no host, address or network"):
        read_no_proxy(rules)


def test_a_file_of_authorities_must_hold_some(tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for path, why in (("relative.pem", "absolute"), (str(tmp_path / "none.pem"), "no such file"), (str(empty), "PEM")):
        with pytest.raises(ValueError, match=why):
            read_authorities(path)
