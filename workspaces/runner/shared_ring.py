"""The runner's API of the key ring, for a rotation on another host (operations/ring_elsewhere.py)."""

from aiohttp import web

from dashboard.keys import keyring, sealed_files
from dashboard.problems import Problem
from workspaces.host import same_keys

routes = web.RouteTableDef()


@routes.put("/ring")
async def take(request):
    """Add the keys of the body, the text of a ring, to the ring of this host → {"keys": how many it has now}.

    `first=1`: as the newest ones; `only=1`: without those that neither they nor sealed files of this host are.
    """
    try:
        keys = keyring.parsed(await request.text())
    except ValueError:
        raise Problem(400, "That is no key ring.") from None
    first, only = request.query.get("first") == "1", request.query.get("only") == "1"
    ring = await request.app["daemon"].thread(_taken, keys, first, only)
    return web.json_response({"keys": len(ring.keys)})


def _taken(keys, first: bool, only: bool) -> keyring.Ring:
    ring = keyring.add(keys, first=first)
    if only:
        ring = keyring.keep_only(lambda: {key.id for key in keys} | sealed_files.keys_in_use())
    same_keys.note()
    return ring
