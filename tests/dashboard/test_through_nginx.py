"""What agents and terminals need gets through deploy/nginx.conf, and `doctor --url` finds what does not."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.nginx import nginx
from tests.support.nginx import program as nginx_program
from tests.support.product import Product


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A product whose hooks are held for longer than nginx would wait by itself (60 s)."""
    running = Product(tmp_path_factory.mktemp("held"), HANDRAIL_HOLD_SECONDS="90")
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


def bare(text: str) -> str:
    """The example's configuration without what it says beyond where things are: a proxy as it comes."""
    kept = r"proxy_pass|listen|server_name|server \{|location|^\s*\}|proxy_set_header Host"
    body = text.split("server {")[1]
    return "server {" + "\n".join(line for line in body.splitlines() if re.search(kept, line))


@pytest.fixture(scope="module")
def seen(held, require, tmp_path_factory) -> dict:
    """What `doctor --url` says through the example and through one as it comes: side by side, as they mostly wait."""
    program = nginx_program(require)
    folder = tmp_path_factory.mktemp("nginx")

    def examine(name, change):
        with nginx(program, folder / name, held.port, change) as address:
            return held.manage("doctor", "--url", address, timeout=300)

    with ThreadPoolExecutor() as threads:
        asked = {
            "example": threads.submit(examine, "example", lambda text: text),
            "bare": threads.submit(examine, "bare", bare),
        }
        return {name: done.result() for name, done in asked.items()}


def findings(done) -> dict[str, str]:
    """{part: ok, FAIL or note}"""
    return {name: mark.strip() for mark, name in re.findall(r"^(ok  |FAIL|note)  (\w+): ", done.stdout, re.M)}


def test_everything_gets_through_the_example_and_a_hook_is_held_for_90_seconds(seen):
    done = seen["example"]
    assert findings(done) == {
        "reached": "ok",
        "sockets": "ok",
        "hold": "ok",
        "upload": "ok",
        "streaming": "ok",
    }, done.stdout + done.stderr
    assert done.returncode == 0
    assert re.search(r"held for (8[1-9]|9\d) s", done.stdout)


def test_a_proxy_as_it_comes_is_found_out_with_the_lines_to_change(seen):
    done = seen["bare"]
    found = findings(done)
    assert {name for name, mark in found.items() if mark == "FAIL"} >= {"sockets", "hold", "upload"}, done.stdout
    assert "proxy_read_timeout 1d" in done.stdout
    assert "client_max_body_size 1g" in done.stdout
    assert done.returncode == 1
