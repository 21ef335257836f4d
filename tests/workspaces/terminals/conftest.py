"""Terminals two ways: of the whole product, over its sockets; and rows with a real host process in this process."""

import asyncio
import shutil
import uuid

import pytest
from playwright.sync_api import expect

from dashboard.database import clock
from tests.support.desk import Desk
from tests.workspaces.drivers.runs import begin, ground  # noqa: F401 - fixtures
from tests.workspaces.terminals.screens import DESKTOP, listen
from workspaces.host import paths
from workspaces.models import Environment, Operation, Phase, State, Terminal, Workspace
from workspaces.shim import client
from workspaces.shim.record import ShimSpec


@pytest.fixture(scope="session")
def lead(product):
    """The API as a lead sees it, who may type."""
    return Desk(product, product.person_token("lena-of-terminals", "lead"))


@pytest.fixture(scope="session")
def reader(product):
    """The token of somebody who may only look."""
    return product.person_token("vera-of-terminals", "viewer")


@pytest.fixture(scope="session")
def place(lead):
    """The key of a workspace that is up."""
    return lead.create("terminals")["key"]


@pytest.fixture
def opened(lead, place):
    """`opened("cat")`: the id of a terminal that runs a shell command; `opened()`: of a shell."""

    def start(command: str = "", **wish) -> str:
        argv = {"argv": ["bash", "-c", command]} if command else {}
        return lead.post(f"/workspaces/{place}/terminals", argv | wish).json["id"]

    return start


# In a browser


@pytest.fixture(scope="module")
def states(chromium, product):
    """The cookies of somebody signed in, by name: a one-time link is used once."""
    known = {}

    def of(name, role):
        if name not in known:
            context = chromium.new_context()
            page = context.new_page()
            page.goto(product.sign_in_url(name, role))
            page.locator("main button").click()
            expect(page).to_have_url(f"{product.desk}/")
            known[name] = context.storage_state()
            context.close()
        return known[name]

    return of


@pytest.fixture
def person(chromium, product, states):
    """`person("lead")`: a page of somebody with a role. `page.sent`: frames of its terminal; `page.complaints`."""
    contexts = []

    def come_in(role, scheme="light", **options):
        options = {"permissions": ["clipboard-read", "clipboard-write"]} | (options or DESKTOP)
        context = chromium.new_context(
            storage_state=states(f"{role}-at-terminals", role), color_scheme=scheme, base_url=product.desk, **options
        )
        contexts.append(context)
        # What a screen reader hears is text in the page, whatever draws the letters.
        context.add_init_script("localStorage.setItem('terminal-aloud', '1')")
        page = context.new_page()
        page.complaints, page.sent = [], []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: page.complaints.append(said.text) if "Security Policy" in said.text else None)
        page.on("websocket", lambda socket: listen(page, socket))
        return page

    yield come_in
    for context in contexts:
        for page in context.pages:
            assert getattr(page, "complaints", []) == []
        context.close()


@pytest.fixture
def at(place):
    return lambda terminal, part="": f"/w/main/{place}/terminals/{terminal}/{part}"


# In this process


@pytest.fixture
def in_team(transactional_db, team, lena):
    """A workspace of the team; no runner serves it."""
    environment = Environment.objects.create(team=team, name="default", version=1)
    return Workspace.objects.create(
        team=team, key="repo", environment=environment, state=State.READY, created_by_user=lena, uid=400_000
    )


@pytest.fixture
def hosted(in_team, begin):  # noqa: F811
    """`hosted("cat")`: a Terminal of that workspace with a real host process."""
    run = begin("folder")

    def start(command: str, **fields) -> Terminal:
        terminal = make_row(in_team, command)
        spec = ShimSpec.shell(command, run.owner.address, pty=True, **fields)
        asyncio.run(client.start(paths.program_of(in_team.pk, terminal.operation_id), spec))
        return terminal

    yield start
    shutil.rmtree(paths.folder_of(in_team.pk), ignore_errors=True)


def make_row(workspace, command: str) -> Terminal:
    operation = Operation.objects.create(
        pk=uuid.uuid4(),
        workspace=workspace,
        kind="terminal",
        phase=Phase.STARTED,
        due_at=clock.now(),
    )
    by = {"type": "person", "id": "1", "label": "lena"}
    return Terminal.objects.create(
        workspace=workspace, operation=operation, argv=["bash", "-lc", command], opened_by=by
    )


def ended(terminal: Terminal) -> Terminal:
    """Wait for its program, and settle the row as a runner does."""
    folder = paths.program_of(terminal.workspace_id, terminal.operation_id)
    end = asyncio.run(client.wait(folder, 120)).exit
    Operation.objects.filter(pk=terminal.operation_id).update(phase=Phase.SETTLED, outcome={"ok": True})
    Terminal.objects.filter(pk=terminal.pk).update(
        ended_at=clock.now(), exit_status=end.exit_status, bytes=end.output_bytes
    )
    terminal.refresh_from_db()
    return terminal
