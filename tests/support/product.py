"""The product as a process: started, asked, signalled and read as an operator would."""

import fcntl
import http.cookiejar
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support import CHECKOUT
from tests.support.console import Console
from tests.support.leftovers import Janitor, end_runs


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _link_or_copy(source: str, target: str):
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy(source, target)


class PreparedHome:
    """What a first start spends most of its time with, done once for all processes of a test run: an empty database
    that is migrated, and the static files. Everything else (keys, people, folders) each product makes itself."""

    def __init__(self, folder: Path):
        self.folder = folder

    def into(self, home: Path, environment: dict, user: int | None = None):
        """Fill a home; one for another user gets copies that are this user's in the place of links."""
        self._make(environment)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = _link_or_copy if user is None else shutil.copy
        shutil.copytree(self.folder / "staticfiles", home / "staticfiles", copy_function=copy)
        shutil.copy(self.folder / "handrail.sqlite3", home)
        if user is not None:
            for path in (home, *home.rglob("*")):
                os.chown(path, user, user)

    def _make(self, environment: dict):
        with self.folder.with_name("prepared.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.folder.exists():
                half = self.folder.with_name("prepared.half")
                shutil.rmtree(half, ignore_errors=True)  # of an attempt that failed
                if (migrated := self.folder.with_name("migrated.sqlite3")).exists():  # tests/support/migrated.py
                    half.mkdir(mode=0o700)
                    shutil.copy(migrated, half / "handrail.sqlite3")
                first_steps = (
                    "import django; django.setup(); from dashboard.ops.bootstrap import prepare; prepare(print)"
                )
                done = subprocess.run(
                    [sys.executable, "-c", first_steps],
                    cwd=CHECKOUT,
                    env=environment
                    | {"HANDRAIL_HOME": str(half), "HANDRAIL_RUNTIME": str(half / "run")}
                    | {"DJANGO_SETTINGS_MODULE": "dashboard.settings"},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                half.rename(self.folder)


class Answer:
    """An HTTP answer, whatever its status."""

    def __init__(self, status: int, headers, body: bytes):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Product:
    """One Handrail in a folder and on a port of its own. `log` is all that it has printed."""

    prepared: PreparedHome | None = None  # tests/conftest.py says where
    checkout, python = CHECKOUT, sys.executable  # a benchmark may run those of another build

    def __init__(self, home: Path, *, fresh: bool = False, **environment):
        self.home = home
        self.fresh = fresh  # its first start does all the work itself
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"  # as printed, and for programs
        name = f"handrail.localhost:{self.port}"
        self.desk = f"http://{name}"  # where a browser ends up
        self.desk_host = {} if "HANDRAIL_PUBLIC_URL" in environment else {"Host": name}
        # Not under the test's folder: a socket's path has 107 bytes.
        self._runtime = tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp", ignore_cleanup_errors=True)
        self.runtime = Path(self._runtime.name)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HANDRAIL_", "DJANGO_")) and name != "DATABASE_URL"
        }
        own_home = self.runtime / "user"  # `connect` writes into it, and two tests may do so at once
        own_home.mkdir()
        self.environment |= {
            "HOME": str(own_home),
            "HANDRAIL_HOME": str(home),
            "HANDRAIL_RUNTIME": self._runtime.name,
            "HANDRAIL_PORT": str(self.port),
            "HANDRAIL_RUNS": "0",  # the workspaces of hundreds of tests are awake at once
            "HANDRAIL_HELD": "0",  # most tests are about asking, whatever this machine's kernel can hold
            "HANDRAIL_UNHELD": "run",  # and start commands as an agent, in all drivers, to see what a workspace does
        }
        self.environment |= environment
        self.user: int | None = None
        self.process: subprocess.Popen | None = None
        self._console: Console | None = None
        self._log_file = Path(self._runtime.name, "log")

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def lend_images(self):
        """The microVM image of the tests, if there is one; before the start."""
        if images := os.environ.get("HANDRAIL_TEST_MICROVM_IMAGES"):
            (self.home / "images").mkdir(parents=True)
            (self.home / "images" / "microvm").symlink_to(images)

    def become(self, uid: int):
        """Run as this user, in a home that is this user's; only for root, and before the start."""
        self.user, self.home = uid, self.runtime / "home"
        self.environment |= {"HANDRAIL_HOME": str(self.home), "HOME": self._runtime.name}
        os.chown(self.runtime, uid, uid)

    @property
    def _as_user(self) -> dict:
        return {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}

    @property
    def _has_a_database(self) -> bool:
        return "DATABASE_URL" in self.environment or (self.home / "handrail.sqlite3").exists()

    def prepare(self):
        """Give it what a first start would make first, unless it is there; a fresh one is left alone.

        Benchmarks and the pictures, which run outside the tests, have no prepared home: theirs starts as people's does.
        """
        if self.prepared and not self.fresh and not self._has_a_database:
            self.prepared.into(self.home, self.environment, self.user)

    def start(self, *, until: str = "/readyz", within: float = 240):
        """Start `manage.py up` and wait until the address answers 200; "": do not wait."""
        self.prepare()
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "manage.py", "up"],
                cwd=self.checkout,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._as_user,
            )
        Janitor.tell(self)
        try:
            if until:
                self.wait_for(until, within=within)
        except BaseException:
            self.process.kill()  # a fixture that ends here cleans nothing up; the warden ends the parts
            raise

    def wait_for(self, path: str, *, within: float):
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode} before {path} answered:\n{self.log}")
            try:
                if self.get(path, timeout=5).status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{path} did not answer 200 within {within} s:\n{self.log[-5000:]}")

    def stop(self, number: int = signal.SIGTERM, *, within: float = 15) -> int | None:
        """Send the signal and wait; the exit status. Does nothing when it does not run."""
        if self._console:
            self._console.close()  # the next start may have another environment
            self._console = None
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.send_signal(number)
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not stop within {within} s:\n{self.log[-5000:]}") from None

    def copy_home(self, target: Path):
        """Copy the home as it is at one moment, as a snapshot of the host's disk would: all parts stand still."""
        parts = [self.process.pid, *(self.part_pid(name) for name in ("web", "runner", "queue"))]
        for part in parts:
            os.kill(part, signal.SIGSTOP)
        try:
            subprocess.run(["cp", "-a", self.home, target], check=True)
        finally:
            for part in reversed(parts):
                os.kill(part, signal.SIGCONT)

    def clean_up(self):
        """Stop it for good: with the workspaces, which a stop alone leaves up."""
        self.stop(within=60)  # how soon it stops is what others assert
        engine, cluster = (self.environment.get(f"HANDRAIL_{name}", "") for name in ("DOCKER_HOST", "KUBERNETES"))
        end_runs(self.home, self.runtime, engine, cluster)
        Janitor.tell(self, over=True)
        self._runtime.cleanup()

    def manage(self, *args: str, timeout: float = 600, **run) -> subprocess.CompletedProcess:
        """`python manage.py …` beside it, with its environment."""
        return self.beside([self.python, "manage.py", *args], timeout=timeout, **run)

    def beside(self, command: list[str], more: dict | None = None, *, timeout: float = 600, **run):
        """A program beside it, with its environment and some more variables."""
        return subprocess.run(
            command,
            cwd=self.checkout,
            env=self.environment | (more or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **self._as_user,
            **run,
        )

    def _printed_by(self, *words: str) -> str:
        self._console = self._console or Console(self.environment, self.python, self.checkout, **self._as_user)
        return self._console.run(*words)

    def shell(self, code: str) -> str:
        """What the code prints, run as `manage.py shell` would."""
        return self._printed_by("shell", "-v", "0", "-c", code)

    def agent_token(self, name: str = "claude", team: str = "main") -> str:
        return self._printed_by("create_token", "--team", team, "--agent", name)

    def person_token(self, name: str, role: str = "reviewer", team: str = "main") -> str:
        return self._printed_by("create_token", "--team", team, "--user", name, "--role", role)

    def sign_in_url(self, name: str, role: str = "reviewer", team: str = "main") -> str:
        """A one-time URL for the person, who is made first when missing."""
        self.person_token(name, role, team)
        return self._printed_by("sign_in_url", name)

    def first_sign_in_url(self) -> str:
        """As printed at the start."""
        return re.search(r"http://\S+/sign-in/\S+", self.log).group()

    def call(self, method: str, path: str, token: str = "", body=None, *, timeout: float = 60, headers=()) -> Answer:
        """One HTTP request; `body` is bytes, or JSON to be."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, method=method, headers=self.desk_host | dict(headers)
        )
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if data is not None and not request.has_header("Content-type"):
            request.add_header("Content-Type", "application/json")
        try:
            with _opener.open(request, timeout=timeout) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.headers, refused.read())

    def browser(self) -> urllib.request.OpenerDirector:
        """Somebody without JavaScript, with cookies, at `url`."""
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies, _AtDesk(self))

    def get(self, path: str, token: str = "", **options) -> Answer:
        return self.call("GET", path, token, **options)

    def post(self, path: str, token: str = "", body=None, **options) -> Answer:
        return self.call("POST", path, token, {} if body is None else body, **options)

    def settled(self, path: str, token: str, *, within: float = 240) -> dict:
        """A workspace once nothing moves it any more, or a command once it has ended."""
        deadline = time.monotonic() + within
        while True:
            found = self.get(f"{path}?wait=10", token).json
            over = not found["busy"] if "busy" in found else found["ended_at"] is not None
            if over or time.monotonic() > deadline:
                return found

    def end_guests(self):
        """Delete the newest workspaces whose microVM is up, and do not wait for it."""
        lead = self.person_token("ender-of-guests", "lead")
        for workspace in self.get("/api/v1/workspaces", lead).json["workspaces"]:
            if workspace["driver"] == "microvm" and workspace["state"] in ("ready", "running", "working"):
                self.call("DELETE", f"/api/v1/workspaces/{workspace['key']}", lead)

    def part_pid(self, name: str) -> int:
        """The process id of web, runner or queue."""
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            if _command_line(child) == f"handrail {name}":
                return int(child)
        raise AssertionError(f"{name} does not run")


def _command_line(pid: str) -> str:
    """Return the command line of a process, "" if it has ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class _AtDesk(urllib.request.BaseHandler):
    """Ask for the desk by its name, which only browsers can look up."""

    handler_order = 100  # before urllib puts in the host of the address

    def __init__(self, product):
        self.product = product

    def http_request(self, request):
        for name, value in self.product.desk_host.items():
            request.add_unredirected_header(name, value)
        return request


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


_opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
