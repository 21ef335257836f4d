"""All agents side by side, each with one call that waits at a running Handrail until a person approves it, late."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from approvals.agents import dialects
from approvals.agents.dialect import ALL_DAY, Dialect
from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.model import DONE, Model, run
from bench.agents.settings import settle
from tests.support.product import Product

COMMAND = "echo asked >> ran; git push origin main || true"  # it asks in every mode
STARTS = 180  # seconds for each agent to make its call
ENDS = 300  # seconds for its program to end after the approval
# How an agent that can't hold goes on in its session, once it has given up asking: a late approval counts.
GOES_ON = {"qwen": ["--continue"]}
MOST_CALLS = 500  # of an agent that is answered with "not yet" and asks again


@dataclass
class Session:
    """One agent in a home and a folder of its own."""

    dialect: Dialect
    program: str
    root: Path
    product: Product
    model: Model = field(default_factory=Model)

    def __post_init__(self):
        self.token = self.product.agent_token(self.dialect.name)
        self.home, self.folder = self.root / "home", self.root / "folder"
        for path in (self.home, self.folder):
            path.mkdir(parents=True)
        settle(self.dialect, self.home, self.folder, self.product.url, token=self.token, reports=True)
        self.model.scripts["HANDRAIL"] = [self._turn] * MOST_CALLS
        self.process: subprocess.Popen | None = None

    def _turn(self) -> list[dict]:
        """Ask again until the call has run: only an agent that can't hold needs it."""
        return DONE if self.ran else [run(COMMAND)]

    def start(self, *more: str):
        own = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        own |= {"HOME": str(self.home), "PWD": str(self.folder)}
        scripted = SCRIPTED[self.dialect.name]
        self.process = subprocess.Popen(
            [*scripted.command(self.program, "HANDRAIL tries a long wait", self.model.url), *more],
            env=own | scripted.variables(self.model.url),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ended(self, within: float) -> bool:
        """Wait for the end of its program."""
        try:
            self.process.wait(max(0.0, within))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.model.stop()

    @property
    def ran(self) -> list[str]:
        file = self.folder / "ran"
        return file.read_text().split() if file.exists() else []

    def actions(self) -> list[dict]:
        return self.product.get("/api/v1/actions?limit=50", self.token).json["actions"]

    def verdict(self) -> str:
        """Return what went wrong, "" if nothing did."""
        found = self.actions()
        if self.process.poll() is None:
            return "its program did not end"
        if self.ran != ["asked"]:
            return f"ran {' '.join(self.ran) or 'nothing'}"
        if len(found) != 1:
            return f"{len(found)} cards for one call"
        return "" if found[0]["status"] in ("succeeded", "running", "uncertain") else found[0]["status"]


def hold(seconds: int, wanted: list[str]) -> int:
    """Hold a call of each agent for so long, and print a row for each; 1 unless each ran once, after its approval."""
    found = [(dialect, shutil.which(dialect.program)) for dialect in map(dialects.find, SCRIPTED)]
    found = [(dialect, program) for dialect, program in found if program and (not wanted or dialect.name in wanted)]
    with tempfile.TemporaryDirectory(prefix="handrail-agents-", ignore_cleanup_errors=True) as root:
        # Requests expire after half an hour by default, after which an agent asks anew.
        product = Product(Path(root, "home"), HANDRAIL_EXPIRY_SECONDS=str(seconds + 3600))
        product.start()
        sessions = [Session(dialect, program, Path(root, dialect.name), product) for dialect, program in found]
        try:
            return _held(product, sessions, seconds)
        finally:
            product.clean_up()
            for session in sessions:
                session.close()


def _held(product: Product, sessions: list[Session], seconds: int) -> int:
    person = product.person_token("rita", "reviewer")
    for session in sessions:
        session.start()
    began, waiting = time.monotonic(), {}
    while len(waiting) < len(sessions) and time.monotonic() - began < STARTS:
        for session in sessions:
            if session.dialect.name not in waiting and (cards := session.actions()):
                waiting[session.dialect.name] = cards[0], time.monotonic()
        time.sleep(0.5)
    time.sleep(seconds)
    too_early = {session.dialect.name for session in sessions if session.ran}
    for card, _ in waiting.values():
        answer = {"verdict": "approve", "digest": card["digest"]}
        sent = product.post(f"/api/v1/actions/{card['id']}/decision", person, answer)
        if sent.status != 200:
            print(f"  A-{card['number']} was not approved: {sent.text}", flush=True)
    approved = time.monotonic()
    for session in sessions:
        if session.dialect.name in GOES_ON and session.process.poll() is not None:
            session.start(*GOES_ON[session.dialect.name])
    wrong = 0
    for session in sessions:
        session.ended(approved + ENDS - time.monotonic())
        name = session.dialect.name
        why = "RAN UNAPPROVED" if name in too_early else session.verdict() if name in waiting else "it made no call"
        wrong += bool(why)
        held = f"held {approved - waiting[name][1]:,.0f} s" if name in waiting else "not held"
        how = "" if session.dialect.patience_s >= ALL_DAY else ', answered "not yet" meanwhile'
        print(
            f"  {session.dialect.title:<14}{_version(session.program):<12}{held}{how}: {why or 'ran once'}", flush=True
        )
    return 1 if wrong or not sessions else 0


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else "?"
