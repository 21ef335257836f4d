"""E2B's SDKs with a domain and a key alone: TLS host names in front of nginx, and who is asked by which name."""

import http.client
import re

import pytest

from tests.support.desk import Desk
from tests.support.names import name_server
from tests.support.nginx import nginx
from tests.support.nginx import program as nginx_program
from tests.support.product import Product, free_port

DOMAIN = "preview.localhost"  # of previews, by default


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("e2b-by-name")


@pytest.fixture(scope="module")
def names(tmp_path_factory, require):
    with name_server(tmp_path_factory.mktemp("names") / "own", DOMAIN, require) as known:
        yield known


def over_tls(names, port: int):
    """The example's configuration with TLS, and the names of the test."""
    own = f"ssl_certificate {names.folder}/name.pem; ssl_certificate_key {names.folder}/name.key;"

    def change(text: str) -> str:
        text = text.replace(f"listen 127.0.0.1:{port};", f"listen 127.0.0.1:{port} ssl; {own}")
        return text.replace("*.preview.example.net", f"*.{DOMAIN}")

    return change


@pytest.fixture(scope="module")
def tls_port(product, names, tmp_path_factory, require):
    """The port of an nginx that ends TLS in front of the product."""
    port, folder = free_port(), tmp_path_factory.mktemp("nginx") / "own"
    with nginx(nginx_program(require), folder, product.port, over_tls(names, port), port):
        yield port


def test_a_sandbox_lives_by_its_names(sdk_by_name, product, token, names, tls_port):
    seen = sdk_by_name(product, token, names, tls_port, "life")
    assert seen["listed"]
    assert seen["kept"] == "kept"
    assert seen["running"] == [True, False]
    assert seen["killed"] == [True, False]


def test_commands_terminals_and_files_go_by_a_sandbox_s_name(sdk_by_name, product, token, names, tls_port):
    assert sdk_by_name(product, token, names, tls_port, "run")["stdout"] == "one\ntwo\n"
    assert "hello-me" in sdk_by_name(product, token, names, tls_port, "pty")["seen"]
    seen = sdk_by_name(product, token, names, tls_port, "files")
    assert (seen["text"], seen["streamed"]) == ("eins ümore\n", 100_000)
    assert ["create", "new.txt"] in seen["events"]


def ask(product, host: str, path: str, method="GET", body=None, **headers):
    """One request to the product itself by a name; its status and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=60)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Host": host} | sent)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_the_name_of_a_sandbox_decides_whatever_the_header_says(product, token):
    one, two = (Desk(product, token).create(name)["key"] for name in ("named-1", "named-2"))
    Desk(product, token).call("PUT", f"/workspaces/{one}/files/mine.txt", b"of one", 201)
    asked = {"X_Access_Token": token, "E2b_Sandbox_Id": two}
    assert ask(product, f"49983-{one}.{DOMAIN}", "/files?path=mine.txt", **asked) == (200, b"of one")
    assert ask(product, f"49983-{two}.{DOMAIN}", "/files?path=mine.txt", **asked)[0] == 404
    assert ask(product, f"49983-{one.upper()}.{DOMAIN}:8443", "/health", X_Access_Token=token) == (204, b"")
    assert ask(product, f"49983-nowhere.{DOMAIN}", "/health", X_Access_Token=token)[0] == 502


def test_nothing_else_of_the_desk_is_below_these_names(product, token):
    for path in ("/", "/accounts/login/", "/api/v1/me", "/healthz", "/e2b/v2/sandboxes", "/admin/"):
        for host in (f"api.{DOMAIN}", f"49983-named-1.{DOMAIN}"):
            status, body = ask(product, host, path, X_API_KEY=token)
            assert (status, b"Handrail does not take GET" in body) == (404, True), (host, path)
    assert ask(product, f"api.{DOMAIN}", "/v2/sandboxes")[0] == 401
    assert ask(product, f"api.{DOMAIN}", "/v2/sandboxes", X_API_KEY=token)[0] == 200


def test_a_port_of_a_program_is_for_people(product, token):
    status, body = ask(product, f"3000-named-1.{DOMAIN}", "/", X_Access_Token=token)
    assert (status, b"Open this preview on the desk" in body) == (403, True)


def test_a_file_may_be_as_large_by_the_name_of_a_sandbox(product, token):
    key = Desk(product, token).create("large")["key"]
    large = b"x" * (12 << 20)
    name = f"49983-{key}.{DOMAIN}"
    status, _ = ask(product, name, "/files?path=large.bin", "POST", large, X_Access_Token=token)
    assert status == 200
    status, body = ask(product, name, "/process.Process/List", "POST", large, X_Access_Token=token)
    assert (status, b"too large" in body) == (413, True)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A product whose hooks are held for a moment, so that `doctor --url` takes no longer."""
    running = Product(tmp_path_factory.mktemp("short"), HANDRAIL_HOLD_SECONDS="3")
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


def doctor(product, names, port: int) -> str:
    command = [product.python, "manage.py", "doctor", "--url", f"https://localhost:{port}"]
    ended = product.beside(names.shown_to(command), names.environment)
    return ended.stdout + ended.stderr


def test_the_doctor_tries_the_names(short, names, tmp_path, require):
    port = free_port()
    with nginx(nginx_program(require), tmp_path / "right", short.port, over_tls(names, port), port):
        assert f"ok    names: E2B's SDKs find this desk with E2B_DOMAIN={DOMAIN}:{port}" in doctor(short, names, port)


def test_the_doctor_says_which_name_is_wrong(short, names, tmp_path, require):
    port = free_port()

    def change(text: str) -> str:  # a proxy that sends all names on as the desk's
        return over_tls(names, port)(text).replace("proxy_set_header Host $host", "proxy_set_header Host localhost")

    with nginx(nginx_program(require), tmp_path / "wrong", short.port, change, port):
        said = doctor(short, names, port)
    assert re.search(
        rf"FAIL  names: failed: https://api\.{DOMAIN}:{port}/sandboxes/\S+ answered 302, and not as", said
    ), said
    assert "HANDRAIL_PREVIEW_HOST" in said
