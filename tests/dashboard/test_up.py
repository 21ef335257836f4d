"""`make up` as people run it: the first way in, one at a time, kills at any moment, and an end within ten seconds."""

import os
import re
import signal
import socket
import sqlite3
import stat
import time

import pytest

from tests.support.waiting import until


def groups_of(product) -> list[int]:
    return [product.part_pid(name) for name in ("web", "runner", "queue")]


def group_is_empty(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_everything_that_is_needed_answers(product):
    assert (product.get("/healthz").status, product.get("/healthz").text) == (200, "ok\n")
    parts = product.get("/readyz").json
    assert [(part["part"], part["ok"]) for part in parts] == [
        ("web", True),
        ("database", True),
        ("runner", True),
        ("store", True),
    ]


def test_the_first_way_in_is_printed_once_and_works(product):
    assert product.log.count(f"{product.url}/sign-in/") == 1
    path = product.first_sign_in_url().removeprefix(product.url)
    page = product.get(path)
    assert page.status == 200
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text).group(1)
    cookie = page.headers["Set-Cookie"].split(";")[0]
    form = f"csrfmiddlewaretoken={token}".encode()
    headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", "Origin": product.desk}
    answer = product.call("POST", path, body=form, headers=headers.items())
    assert (answer.status, answer.headers["Location"]) == (302, "/")
    assert product.call("POST", path, body=form, headers=headers.items()).status == 410
    # The second POST was refused, and refusals are logged with their address.
    assert len(re.findall(r"/sign-in/[\w-]{20}", product.log)) == 1


def test_data_is_private(product):
    assert product.home.stat().st_mode & 0o777 == 0o700
    assert (product.home / "keys" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert product.runtime.stat().st_mode & 0o777 == 0o700


def test_doctor_agrees(product):
    until(lambda: (product.runtime / "heartbeat" / "queue").exists())
    done = product.manage("doctor")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "ok    web: GET /healthz returned 200." in lines
    assert "ok    database: SQLite is available and passed its integrity check." in lines
    assert any(line.startswith("ok    queue: Running") for line in lines)
    assert any(line.startswith(("ok    driver sandbox", "note  driver sandbox")) for line in lines)


def test_a_second_one_on_the_same_home_is_refused(product):
    done = product.manage("up")
    assert done.returncode == 1
    assert f"Handrail is running already on {product.home} (process {product.process.pid})" in done.stderr
    assert product.get("/readyz").status == 200


def test_a_port_that_is_taken_is_refused(new_product):
    product = new_product()
    with socket.create_server(("127.0.0.1", product.port)):
        done = product.manage("up")
    assert done.returncode == 1
    assert f"Handrail cannot listen on 127.0.0.1:{product.port}" in done.stderr
    assert "HANDRAIL_PORT" in done.stderr


def test_a_runtime_folder_of_somebody_else_is_refused(new_product, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "planted"
    link.symlink_to(tmp_path / "elsewhere")
    done = new_product(HANDRAIL_RUNTIME=str(link)).manage("up")
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr


@pytest.mark.parametrize("name", ["HANDRAIL_HOME", "HANDRAIL_RUNTIME"])
def test_a_folder_that_is_everybodys_is_refused_and_stays_so(new_product, tmp_path, name):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    done = new_product(**{name: str(shared)}).manage("up")
    assert done.returncode != 0
    assert "it is shared by all users of this machine" in done.stderr
    assert (stat.S_IMODE(shared.stat().st_mode), list(shared.iterdir())) == (0o1777, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_stops_within_ten_seconds_and_leaves_no_process(new_product, number):
    product = new_product()
    product.start()
    groups = groups_of(product)
    began = time.monotonic()
    assert product.stop(number) == 0
    assert time.monotonic() - began < 10
    assert [group_is_empty(group) for group in groups] == [True, True, True]


@pytest.mark.parametrize("name", ["web", "runner", "queue"])
def test_a_part_that_is_killed_comes_back(product, name):
    killed = product.part_pid(name)
    (product.runtime / "heartbeat" / name).unlink(missing_ok=True)
    os.kill(killed, signal.SIGKILL)
    until(lambda: group_is_empty(killed))

    def back():
        try:
            return product.part_pid(name) != killed
        except AssertionError:
            return False

    until(back)
    product.wait_for("/readyz", within=60)
    if name != "web":  # web's heartbeat is its answer
        until((product.runtime / "heartbeat" / name).exists, 60)


def test_nobody_is_turned_away_while_the_web_server_starts_again(product):
    os.kill(product.part_pid("web"), signal.SIGKILL)
    assert product.get("/healthz", timeout=60).status == 200


def test_nothing_outlives_a_killed_supervisor_and_the_next_one_starts(new_product):
    product = new_product()
    product.start()
    groups = groups_of(product)
    product.process.kill()
    product.process.wait()
    until(lambda: all(group_is_empty(group) for group in groups), 5)
    began = time.monotonic()
    product.start()
    assert time.monotonic() - began < 30
    assert product.get("/readyz").status == 200


def test_a_database_of_a_newer_handrail_is_refused_and_left_alone(new_product):
    product = new_product()
    product.prepare()
    path = product.home / "handrail.sqlite3"
    with sqlite3.connect(path) as opened:
        opened.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('dashboard', '0999_later', 'now')")
    opened.close()
    done = product.manage("up")
    assert done.returncode == 1
    assert "newer Handrail: dashboard.0999_later is not known here" in done.stderr
    assert not (product.home / "backups").exists()


def test_a_damaged_database_is_refused(new_product):
    product = new_product()
    product.prepare()
    path = product.home / "handrail.sqlite3"
    content = bytearray(path.read_bytes())
    content[4096 * 5 : 4096 * 9] = os.urandom(4096 * 4)
    path.write_bytes(content)
    done = product.manage("up")
    assert done.returncode == 1
    assert "The database is damaged" in done.stderr
    assert bytes(content) == path.read_bytes()


def test_the_database_is_copied_before_it_is_migrated(new_product):
    product = new_product()
    product.prepare()
    assert product.manage("migrate", "approvals", "zero").returncode == 0
    product.start(until="/healthz")
    copies = list((product.home / "backups").glob("before-migrate-*.sqlite3"))
    assert len(copies) == 1
    with sqlite3.connect(copies[0]) as opened:
        applied = {row[0] for row in opened.execute("SELECT app FROM django_migrations")}
    opened.close()
    assert "workspaces" in applied
    assert "approvals" not in applied


def test_a_first_start_prepares_all_and_warns_about_a_public_address_without_tls(new_product):
    nowhere = "unix:///nowhere/docker.sock"
    product = new_product(fresh=True, HANDRAIL_PUBLIC_URL="http://handrail.example", HANDRAIL_DOCKER_HOST=nowhere)
    product.start()
    assert "creating the database" in product.log
    assert "collecting static files" in product.log
    assert "http://handrail.example is not encrypted" in product.log
    assert product.first_sign_in_url().startswith("http://handrail.example/sign-in/")
    assert "Traceback" not in product.log


def test_up_runs_as_an_ordinary_user(new_product, ordinary_user):
    product = new_product(fresh=True)
    product.become(ordinary_user)
    product.start()
    assert os.stat(f"/proc/{product.part_pid('runner')}").st_uid == ordinary_user
    assert product.get("/readyz").status == 200
