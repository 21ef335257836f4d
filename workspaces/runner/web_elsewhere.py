"""The web that programs of workspaces reach as handrail.internal, on a host that runs none.

The egress proxy's connections go to a listener of the runner, and from there, with this host's certificate, to the
runner of a host that has a web, which passes them on to it. So what the proxy says of where a request comes from is
kept: no balancer is in between.
"""

import asyncio
import logging

from aiohttp import web
from django.conf import settings

from dashboard.net.addresses import to_call
from workspaces.host import leads
from workspaces.host.leads import Unreachable
from workspaces.runner import streams

logger = logging.getLogger("handrail.egress")
ADDRESS = "/web"
routes = web.RouteTableDef()


def own_address() -> tuple[str, int]:
    """Return host and port of this host's web."""
    return to_call(settings.HANDRAIL_HOST), settings.HANDRAIL_PORT


@routes.get(ADDRESS)
async def pass_on(request):
    """Upgrade to a connection to this host's web."""
    return await streams.pass_on(request, lambda: asyncio.open_connection(*own_address()))


class WebElsewhere:
    """Where the proxies of this host find a web."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task] = set()

    async def start(self):
        """Listen, if this host runs no web."""
        if "web" not in settings.HANDRAIL_PARTS:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port of a web: this host's, or the listener that leads to another one."""
        return own_address() if self._server is None else self._server.sockets[0].getsockname()[:2]

    async def _accepted(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            for lead in await self._daemon.thread(leads.others, "web"):
                try:
                    there = await leads.open_stream(lead, ADDRESS)
                except Unreachable as error:
                    logger.warning("the web of %s cannot be reached: %s", lead.host, error)
                    continue
                await streams.join((reader, writer), there)
                return
            logger.warning("no other host with a web can be reached")
        finally:
            writer.close()
