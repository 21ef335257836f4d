"""The socket of open pages: only for members, it says where the feed stands, and ends with the session."""

import asyncio
import json
import time

import pytest
from asgiref.sync import sync_to_async
from autobahn.exception import Disconnected
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client, TransactionTestCase

from approvals.actions import gate
from approvals.evaluation.calls import Call
from dashboard.asgi import application
from dashboard.models import Agent, Event, Membership, Team
from dashboard.people.access import Caller
from dashboard.site import consumers

PATIENCE = 10  # seconds; channels' own is one, which a busy machine needs at times
ORIGIN = [(b"origin", b"http://handrail.localhost:8000"), (b"host", b"handrail.localhost:8000")]
OTHERS = [
    *(None, b"", b"null", b"https://evil.example.org"),
    *(b"http://handrail.localhost:3000", b"http://handrail.localhost", b"https://handrail.localhost:8000"),
    *(
        b"http://127.0.0.1:8000",
        b"http://localhost:8000",
        b"http://handrail.internal",
        b"http://a.handrail.localhost:8000",
    ),
]


class Sockets(TransactionTestCase):
    def setUp(self):
        self.team = Team.objects.create(slug="payments", name="Payments")
        self.bob = get_user_model().objects.create_user("bob")
        Membership.objects.create(team=self.team, user=self.bob, role="reviewer")
        self.agent = Agent.objects.create(team=self.team, name="claude")
        self.client = Client()
        self.client.force_login(self.bob)

    def socket(self, cookie=True, headers=ORIGIN):
        session = self.client.cookies[settings.SESSION_COOKIE_NAME].value if cookie else "none"
        headers = [*headers, (b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode())]
        return WebsocketCommunicator(application, "/ws/live?after=0", headers=headers)

    def ask(self, branch="main"):
        call = Call(tool="Bash", arguments={"command": f"git push origin {branch}"})
        return gate.submit(call, caller=Caller(roles={self.team.pk: "agent"}, agent=self.agent))[0]

    def newest(self):
        return Event.objects.filter(team=self.team).count()

    async def test_a_new_card_is_heard_within_a_second(self):
        socket = self.socket()
        assert (await socket.connect(timeout=PATIENCE))[0] is True
        first = json.loads(await socket.receive_from(PATIENCE))
        assert first == {"upto": 0}
        took = []
        for number in range(3):  # one of them at least, on a machine that does more than this
            await sync_to_async(self.ask)(f"branch-{number}")
            asked, upto = time.monotonic(), await sync_to_async(self.newest)()
            while json.loads(await socket.receive_from(PATIENCE))["upto"] < upto:
                pass
            took.append(time.monotonic() - asked)
        assert min(took) < 1
        await socket.disconnect()

    async def test_an_anonymous_socket_is_refused_before_any_message(self):
        socket = self.socket(cookie=False)
        assert await socket.connect(timeout=PATIENCE) == (False, 4401)

    async def test_another_origin_is_refused(self):
        own = self.socket()  # the same but for its origin
        assert (await own.connect(timeout=PATIENCE))[0] is True
        await own.disconnect()
        for origin in OTHERS:
            headers = [(b"host", b"handrail.localhost:8000"), *([(b"origin", origin)] if origin is not None else [])]
            assert (await self.socket(headers=headers).connect(timeout=PATIENCE))[0] is False, origin

    async def test_somebody_without_a_team_is_refused(self):
        await Membership.objects.all().adelete()
        assert await self.socket().connect(timeout=PATIENCE) == (False, 4401)

    async def _ends(self, change):
        before = consumers.RECHECK_INTERVAL, consumers.POLL_INTERVAL
        consumers.RECHECK_INTERVAL, consumers.POLL_INTERVAL = 0, 0.1
        try:
            socket = self.socket()
            await socket.connect(timeout=PATIENCE)
            await socket.receive_from(PATIENCE)
            await change()
            assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4401}
        finally:
            consumers.RECHECK_INTERVAL, consumers.POLL_INTERVAL = before

    async def test_the_socket_ends_with_the_membership(self):
        await self._ends(Membership.objects.all().adelete)

    async def test_the_socket_ends_with_the_session(self):
        await self._ends(sync_to_async(self.client.logout))

    async def test_the_socket_ends_when_the_account_is_closed(self):
        await self._ends(lambda: get_user_model().objects.filter(pk=self.bob.pk).aupdate(is_active=False))

    async def test_an_unknown_address_is_refused_and_is_no_error(self):
        with self.assertNoLogs(level="ERROR"):
            for path in ("/ws/nothing", "/ws/", "/", "/ws/live/x"):
                socket = WebsocketCommunicator(application, path, headers=ORIGIN)
                assert (await socket.connect(timeout=PATIENCE))[0] is False, path

    async def test_what_is_said_to_a_page_that_has_just_gone_is_dropped(self):
        said, went = [], asyncio.Event()

        async def server_says():
            if not said:
                return {"type": "websocket.connect"}
            await asyncio.wait_for(went.wait(), PATIENCE)
            return {"type": "websocket.disconnect", "code": 1006}

        async def server_hears(message):  # as daphne does, which tells only later that the page has gone
            said.append(message["type"])
            if len(said) == 3:
                went.set()
            if message["type"] == "websocket.send":
                raise Disconnected

        going = asyncio.create_task(application(self.socket().scope, server_says, server_hears))
        while len(said) < 2:
            await asyncio.sleep(0.01)
        await sync_to_async(self.ask)()
        await going
        assert said == ["websocket.accept", "websocket.send", "websocket.send"]

    async def test_what_a_page_says_changes_nothing(self):
        socket = self.socket()
        await socket.connect(timeout=PATIENCE)
        await socket.receive_from(PATIENCE)
        await socket.send_to(text_data='{"upto": 99}')
        await socket.send_to(bytes_data=b"\xff")
        await sync_to_async(self.ask)()
        assert json.loads(await socket.receive_from(PATIENCE))["upto"] > 0
        await socket.disconnect()


pytestmark = pytest.mark.django_db(transaction=True)
