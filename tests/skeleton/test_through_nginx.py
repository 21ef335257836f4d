"""What agents and terminals need gets through deploy/nginx.conf, and `doctor --url` finds what does not."""

import re
import shutil
import subprocess
import time

import pytest

from tests.product import CHECKOUT, Product, free_port


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A product whose hooks are held for longer than nginx would wait by itself (60 s)."""
    running = Product(tmp_path_factory.mktemp("held"), HANDRAIL_HOLD_SECONDS="90")
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture
def nginx(tmp_path, require, held):
    """`nginx(change)`: the example's configuration, changed, in front of the product; its address."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program is None:
        require("nginx", "nginx is not installed")
    started = []

    def start(change=lambda text: text) -> str:
        port = free_port()
        text = (CHECKOUT / "deploy/nginx.conf").read_text()
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace("handrail.example.org", "localhost")
        text = change(text.replace("127.0.0.1:8000", f"127.0.0.1:{held.port}"))
        temp = " ".join(f"{n}_temp_path {tmp_path}/{n};" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\nhttp {{ {temp}\n{text}\n}}"
        )
        started.append(subprocess.Popen([program, "-e", f"{tmp_path}/error.log", "-c", f"{tmp_path}/nginx.conf"]))
        time.sleep(0.5)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def findings(done) -> dict[str, str]:
    """{part: ok, FAIL or note}"""
    return {name: mark.strip() for mark, name in re.findall(r"^(ok  |FAIL|note)  (\w+): ", done.stdout, re.M)}


def test_everything_gets_through_the_example_and_a_hook_is_held_for_90_seconds(nginx, held):
    done = held.manage("doctor", "--url", nginx())
    assert findings(done) == {
        "reached": "ok",
        "sockets": "ok",
        "hold": "ok",
        "upload": "ok",
        "streaming": "ok",
    }, done.stdout + done.stderr
    assert done.returncode == 0
    assert re.search(r"held for (8[1-9]|9\d) s", done.stdout)


def test_a_proxy_as_it_comes_is_found_out_with_the_lines_to_change(nginx, held):
    def bare(text):
        kept = r"proxy_pass|listen|server_name|server \{|location|^\s*\}|proxy_set_header Host"
        body = text.split("server {")[1]
        return "server {" + "\n".join(line for line in body.splitlines() if re.search(kept, line))

    done = held.manage("doctor", "--url", nginx(bare))
    found = findings(done)
    assert {name for name, mark in found.items() if mark == "FAIL"} >= {"sockets", "hold", "upload"}, done.stdout
    assert "proxy_read_timeout 180s" in done.stdout
    assert "client_max_body_size 1g" in done.stdout
    assert done.returncode == 1
