"""Which git addresses are contacted, where exactly, and with whose credentials. Names are known to a file alone, so
a clone that arrives went to the address that was checked."""

import socket
import subprocess
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.provisioning.git import addresses, cloning, running

HERE = "127.77.9.1"  # a part of loopback that nothing but tests listens on
ELSEWHERE = "127.77.9.2"


@pytest.fixture
def names(tmp_path, settings):
    """Tell the host's file of names what a name leads to."""
    file = tmp_path / "hosts"
    file.touch()
    settings.HANDRAIL_EGRESS_HOSTS = str(file)
    settings.HANDRAIL_PRIVATE_SOURCES = True

    def add(name, address):
        file.write_text(f"{file.read_text()}{address} {name}\n")

    return add


@pytest.fixture
def bare(tmp_path):
    """A bare repository with one commit, and its SHA."""
    work, folder = tmp_path / "work", tmp_path / "served" / "x.git"
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main", work], check=True)
    (work / "file").write_text("text\n")
    subprocess.run([*git, "add", "."], cwd=work, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], cwd=work, check=True)
    subprocess.run([*git, "clone", "-q", "--bare", work, folder], check=True)
    subprocess.run([*git, "update-server-info"], cwd=folder, check=True)
    sha = subprocess.run([*git, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return folder, sha.strip()


@pytest.fixture
def serve():
    """`serve(handler, address)`: an HTTP server on a free port of that address; the port."""
    running = []

    def start(handler, address=HERE):
        server = ThreadingHTTPServer((address, 0), handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        running.append(server)
        return server.server_port

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def into(tmp_path):
    target = tmp_path / "clone"
    target.mkdir()
    return target


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def asked(answer):
    """A handler that answers each GET so, and the list of the headers that it got."""
    heard = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append(dict(self.headers))
            answer(self)

        def log_message(self, *args):
            pass

    return Recorder, heard


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("faß.example", "xn--fa-hia.example"),  # IDNA 2003, as Python has it, goes to fass.example
        ("Bücher.example", "xn--bcher-kva.example"),
        ("EXAMPLE.test.", "example.test"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
    ],
)
def test_a_host_is_read_as_the_client_reads_it_and_handed_on_so(names, written, host):
    if ":" not in host:
        names(host, HERE)
        names("fass.example", ELSEWHERE)
    source = addresses.check_git(f"https://{written}/x.git")
    where = f"[{host}]" if ":" in host else host
    assert (source.host, source.address) == (host, f"https://{where}:443/x.git")
    assert source.pinned == ((host,) if ":" in host else (HERE,))


@pytest.mark.parametrize(
    "address",
    [
        "http://127.1/x.git",
        "http://0x7f.0.0.1/x.git",
        "http://2130706433/x.git",
        "http://127.0.0.01/x.git",
        "http://%31%32%37.0.0.1/x.git",
        "http://good.example\\@127.0.0.1/x.git",
        "http://good.example#@127.0.0.1/x.git",
        "http://good.example?x/y.git",
        "git://good.example?x/y.git",
        "git://good.example%2f@127.0.0.1/x.git",
        "ssh://a%40b@good.example/x.git",
        "ssh://-oProxyCommand=touch/x.git",
        "http://[fe80::1%25lo]/x.git",
        "http://good.example:0/x.git",
        "http://good.example:99999/x.git",
        "http://a..b/x.git",
        "http://ex\u2044ample.test/x.git",
        "ftp://good.example/x.git",
    ],
)
def test_what_two_programs_could_read_in_two_ways_is_refused(names, address):
    names("good.example", HERE)
    with pytest.raises(Problem):
        addresses.check_git(address)


@pytest.mark.parametrize("scheme", ["http", "https", "git", "ssh"])
@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "100.64.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "192.88.99.1",
        "192.0.0.170",
        "224.0.0.1",
        "::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "::ffff:127.0.0.1",
        "2001::1",
        "3fff::1",
        "fd00::1",
    ],
)
def test_the_addresses_that_the_proxy_refuses_are_refused(names, settings, scheme, address):
    settings.HANDRAIL_PRIVATE_SOURCES = False
    settings.HANDRAIL_GIT_HOSTS = ["somewhere.test"]
    names("somewhere.test", "93.184.215.14")
    names("somewhere.test", address)
    with pytest.raises(Problem) as refused:
        addresses.check_git(f"{scheme}://somewhere.test/x.git")
    assert refused.value.detail.startswith(f"somewhere.test is at a private address ({address})")


def test_a_clone_over_git_goes_to_the_checked_address(names, bare, tmp_path):
    folder, sha = bare
    names("known-here.test", HERE)
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    (folder.parent / "known-here.test").mkdir()
    folder.rename(folder.parent / "known-here.test" / "x.git")  # served only to who asks for it by this name
    command = ["git", "daemon", f"--listen={HERE}", f"--port={port}", "--export-all"]
    daemon = subprocess.Popen([*command, f"--interpolated-path={folder.parent}/%H%D"], start_new_session=True)
    try:
        until_listening(port)
        source = addresses.check_git(f"git://known-here.test:{port}/x.git")
        target = into(tmp_path)
        assert cloning.clone(source, target) == sha
    finally:
        daemon.terminate()
        daemon.wait()
    assert (target / "file").read_text() == "text\n"


def until_listening(port):
    for _ in range(200):
        try:
            return socket.create_connection((HERE, port)).close()
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the daemon did not come up")


def test_a_clone_over_http_goes_to_the_checked_address(names, bare, serve, tmp_path):
    folder, sha = bare
    names("known-here.test", HERE)
    port = serve(partial(Quiet, directory=str(folder.parent)))
    target = into(tmp_path)
    assert cloning.clone(addresses.check_git(f"http://known-here.test:{port}/x.git"), target) == sha
    assert (target / "file").read_text() == "text\n"


def test_a_redirect_is_not_followed(names, serve, tmp_path):
    names("known-here.test", HERE)
    inner, heard_inside = asked(lambda request: request.send_error(404))
    inside = serve(inner, ELSEWHERE)

    def redirect(request):
        request.send_response(302)
        request.send_header("Location", f"http://{ELSEWHERE}:{inside}/x.git{request.path.removeprefix('/x.git')}")
        request.end_headers()

    outer, heard = asked(redirect)
    source = addresses.check_git(f"http://known-here.test:{serve(outer)}/x.git")
    with pytest.raises(running.CloneFailed, match=rf"redirects to http://{ELSEWHERE}:{inside}/x.git\. Redirects"):
        cloning.clone(source, into(tmp_path))
    assert len(heard) == 2  # the clone, and the question where the new address is
    assert heard_inside == []


def ask_for_a_password(request):
    request.send_response(401)
    request.send_header("WWW-Authenticate", 'Basic realm="here"')
    request.end_headers()


@pytest.mark.parametrize("named", [True, False])
def test_the_credentials_of_who_runs_this_are_for_hosts_that_an_admin_named(
    names, serve, settings, tmp_path, monkeypatch, named
):
    names("known-here.test", HERE)
    settings.HANDRAIL_GIT_HOSTS = ["known-here.test"] if named else ["another.test"]
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine known-here.test login netrc password canary-1\n")
    (home / ".gitconfig").write_text("[credential]\nhelper = \"!printf 'username=x\\npassword=canary-2\\n'; :\"\n")
    monkeypatch.setenv("HOME", str(home))
    handler, heard = asked(ask_for_a_password)
    source = addresses.check_git(f"http://known-here.test:{serve(handler)}/x.git")
    with pytest.raises(running.CloneFailed):
        cloning.clone(source, into(tmp_path))
    assert heard
    assert any("Authorization" in headers for headers in heard) == named


def test_ssh_is_for_hosts_that_an_admin_named_or_a_team_has_a_key_for(names, team):
    names("known-here.test", HERE)
    for address in ("ssh://git@known-here.test/x.git", "git@known-here.test:x.git"):
        with pytest.raises(Problem) as refused:
            lifecycle.check_source(team, {"git": address})
        assert "HANDRAIL_GIT_HOSTS" in refused.value.detail
        assert refused.value.extra["secret"] == {"name": "SSH_KEY_KNOWN_HERE_TEST", "origin": "ssh://known-here.test"}


def test_ssh_goes_to_the_checked_address(names, settings, tmp_path):
    names("known-here.test", HERE)
    settings.HANDRAIL_GIT_HOSTS = ["known-here.test"]
    with socket.create_server((HERE, 0)) as server:
        server.settimeout(30)
        heard = []

        def answer():
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(8))

        listening = threading.Thread(target=answer)
        listening.start()
        source = addresses.check_git(f"ssh://git@known-here.test:{server.getsockname()[1]}/x.git")
        with pytest.raises(running.CloneFailed):
            cloning.clone(source, into(tmp_path))
        listening.join()
    assert heard == [b"SSH-2.0-"]


def test_the_short_form_of_ssh_is_the_same(names, settings):
    names("known-here.test", HERE)
    settings.HANDRAIL_GIT_HOSTS = ["known-here.test"]
    source = addresses.check_git("git@Known-Here.test:team/x.git")
    assert source == addresses.Git(
        "git@known-here.test:team/x.git", "", "ssh", "known-here.test", 22, (HERE,), "team/x.git"
    )
