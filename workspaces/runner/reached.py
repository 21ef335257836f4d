"""The runner's API on the network, for the webs and queues of other hosts: the same routes, over TLS with certificates.

Who asks over the unix socket is this host's own user. Who asks over TLS shows a certificate, and is refused in words
unless its host is a member of the installation (host/membership.py).
"""

import asyncio
import errno
import logging

from aiohttp import web
from django.conf import settings

from workspaces.host.leads import Lead
from workspaces.host.membership import membership
from workspaces.operations.runner_client import NOT_MEMBER

logger = logging.getLogger("handrail.runner")
RENEWED_EVERY_S = 600.0


@web.middleware
async def members_only(request, handler):
    """Refuse with 403 (code not_a_member) who is connected over TLS and is no member."""
    transport = request.transport
    if transport is None or transport.get_extra_info("ssl_object") is None:
        return await handler(request)
    verified = transport.get_extra_info("peercert")
    refused = membership.known_refusal(verified)
    if refused is None:
        refused = await request.app["daemon"].thread(membership.refusal, verified)
    if refused:
        logger.warning("a request was refused: %s", refused)
        return web.json_response({"detail": refused, "code": NOT_MEMBER}, status=403)
    return await handler(request)


async def serve(daemon, serving: web.AppRunner):
    """Serve at HANDRAIL_RUNNER_ADDRESS, if it is set; at all of this host's addresses if that is a forwarder's."""
    if not settings.HANDRAIL_RUNNER_ADDRESS:
        return
    host, port = Lead("", "", settings.HANDRAIL_RUNNER_ADDRESS).place
    context = (await daemon.thread(membership.contexts)).server
    try:
        await web.TCPSite(serving, host, port, ssl_context=context).start()
    except OSError as error:  # a name that is not known here is one as well
        if error.errno == errno.EADDRINUSE:
            raise
        await web.TCPSite(serving, None, port, ssl_context=context).start()
        logger.info("%s is no address of this host: the runner listens at port %s of all", host, port)


async def keep_new(daemon):
    """Keep the certificate that is shown here from expiring."""
    while settings.HANDRAIL_RUNNER_ADDRESS:
        await asyncio.sleep(RENEWED_EVERY_S)
        try:
            await daemon.thread(membership.contexts)
        except Exception:
            logger.exception("the certificate of this host could not be renewed")
