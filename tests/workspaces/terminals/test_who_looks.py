"""A socket outlives a sign-out, a role and a membership by seconds, not by the day."""

import asyncio
import json
import time

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import get_user_model

from dashboard.asgi import application
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role
from dashboard.problems import unavailable
from workspaces.models import Workspace
from workspaces.pages import terminal_socket
from workspaces.programs import recordings

ORIGIN = [(b"origin", b"http://handrail.localhost:8000"), (b"host", b"handrail.localhost:8000")]


@pytest.fixture
def socket(browser_of):
    """`page = socket(lena, terminal); page()`: the page's socket, with the cookie of a signed-in browser."""

    def make(person, terminal, client=None):
        cookie = (client or browser_of(person)).cookies[settings.SESSION_COOKIE_NAME].value
        headers = [*ORIGIN, (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())]
        return lambda: WebsocketCommunicator(application, f"/ws/terminals/{terminal.pk}?typist=page", headers=headers)

    return make


async def heard(opened, kind: str) -> dict:
    """The next frame of a kind, or the close."""
    async with asyncio.timeout(10):
        while True:
            said = await opened.receive_output(10)
            if said["type"] == "websocket.close":
                return {"type": "close", "code": said["code"]}
            if said.get("text") and (frame := json.loads(said["text"]))["type"] == kind:
                return frame


def remove(person, team):
    """As the page of people does it: the row and its event together."""
    membership = Membership.objects.get(user=person, team=team)
    membership.delete()
    Event.objects.record(team, actor=Actor.system("test"), verb="person.removed", subject=person)


def test_removal_from_the_team_ends_it_at_once(hosted, socket, team, vera):
    page = socket(vera, hosted("sleep 60"))

    async def main():
        opened = page()
        assert (await opened.connect(timeout=10))[0] is True
        assert (await heard(opened, "ready"))["read_only"] is True
        began = time.monotonic()
        await sync_to_async(remove)(vera, team)
        return await heard(opened, "never"), time.monotonic() - began

    closed, seconds = async_to_sync(main)()
    assert closed == {"type": "close", "code": 4401}
    assert seconds < terminal_socket.RECHECK_INTERVAL / 3


@pytest.mark.parametrize("change", ["sign out", "close the account", "leave"])
def test_without_any_event_it_ends_at_the_next_look(hosted, socket, browser_of, team, vera, monkeypatch, change):
    monkeypatch.setattr(terminal_socket, "RECHECK_INTERVAL", 0.2)
    client = browser_of(vera)
    page = socket(vera, hosted("sleep 60"), client)
    changes = {
        "sign out": client.logout,
        "close the account": lambda: get_user_model().objects.filter(pk=vera.pk).update(is_active=False),
        "leave": lambda: Membership.objects.filter(user=vera).delete(),
    }

    async def main():
        opened = page()
        await opened.connect(timeout=10)
        await heard(opened, "ready")
        await sync_to_async(changes[change])()
        return await heard(opened, "never")

    assert async_to_sync(main)() == {"type": "close", "code": 4401}


def test_a_role_that_falls_takes_the_keys_away(hosted, socket, team, lena, monkeypatch):
    monkeypatch.setattr(terminal_socket, "RECHECK_INTERVAL", 0.2)
    page = socket(lena, hosted("stty -echo; echo ready; while read -r line; do echo got $line; done"))

    async def main():
        opened = page()
        await opened.connect(timeout=10)
        assert (await heard(opened, "ready"))["read_only"] is False
        await opened.send_to(bytes_data=b"first\n")
        assert (await heard(opened, "typed"))["count"] == 6
        await Membership.objects.filter(user=lena).aupdate(role=Role.VIEWER)
        assert await heard(opened, "may") == {"type": "may", "read_only": True}
        await opened.send_to(bytes_data=b"second\n")
        await opened.send_to(text_data=json.dumps({"type": "resize", "cols": 20, "rows": 20}))
        await asyncio.sleep(0.5)
        await Membership.objects.filter(user=lena).aupdate(role=Role.LEAD)
        assert await heard(opened, "may") == {"type": "may", "read_only": False}
        await opened.disconnect()
        again = page()
        await again.connect(timeout=10)
        assert (await heard(again, "ready"))["typed"] == 6
        await again.send_to(bytes_data=b"third\n")
        printed = b""
        while b"third" not in printed:
            printed += (await again.receive_output(10)).get("bytes") or b""
        await again.disconnect()
        return printed

    assert async_to_sync(main)() == b"ready\r\ngot first\r\ngot third\r\n"


def test_a_terminal_whose_workspace_was_deleted_for_good_says_so(hosted, socket, vera):
    terminal = hosted("sleep 60")
    now = clock.now()
    Workspace.objects.filter(pk=terminal.workspace_id).update(trashed_at=now, purge_at=now, purged_at=now)
    page = socket(vera, terminal)

    async def main():
        opened = page()
        assert (await opened.connect(timeout=10))[0] is True
        return await opened.receive_output(10)

    assert async_to_sync(main)() == {"type": "websocket.close", "code": 4410, "reason": "workspace_purged"}


def test_nobody_and_somebody_of_another_team_are_refused(hosted, socket, mallory):
    terminal = hosted("sleep 60")
    page = socket(mallory, terminal)

    async def main():
        nobody = WebsocketCommunicator(application, f"/ws/terminals/{terminal.pk}", headers=ORIGIN)
        return await nobody.connect(timeout=10), await page().connect(timeout=10)

    assert async_to_sync(main)() == ((False, 4401), (False, 4404))


def test_a_host_that_is_away_ends_it_without_a_fault_in_the_log(hosted, socket, vera, monkeypatch, caplog):
    terminal = hosted("sleep 60")

    def away(self):
        raise unavailable("host-b cannot be reached: connection refused.", code="unreachable", host="host-b")

    monkeypatch.setattr(recordings.Recording, "has_started", away)
    page = socket(vera, terminal)

    async def main():
        opened = page()
        assert (await opened.connect(timeout=10))[0] is True
        return await heard(opened, "never")

    assert async_to_sync(main)() == {"type": "close", "code": terminal_socket.BROKE}
    told = [record for record in caplog.records if record.name == "handrail.terminals"]
    assert [(record.levelname, record.exc_info) for record in told] == [("WARNING", None)]
    assert "host-b cannot be reached" in told[0].getMessage()
