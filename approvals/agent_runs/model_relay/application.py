"""Route requests below /models/ to the provider of the model: an ASGI application before Django.

`/models/anthropic/v1/messages` becomes that provider's `/v1/messages`, with the key of the team. Only the run's own
token is taken, only the methods and paths that `providers.py` lists, and only bodies that `bodies.py` lets pass.
"""

import asyncio
import logging
from functools import partial

from approvals.agent_runs import trial_model
from approvals.agent_runs.model_relay import accounts, bodies
from approvals.agent_runs.model_relay.providers import PROVIDERS, Provider
from dashboard.database import outages
from dashboard.database.errors import is_away
from dashboard.database.threads import query_in_thread

logger = logging.getLogger("handrail.models")
PATH = "/models/"
MAX_BODY = 32 << 20  # bytes, as the providers allow


class Refusal(Exception):
    """The request is answered with this status and this message, and reaches no provider."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def with_model_relay(app):
    """Wrap an ASGI application so that requests for models never reach it."""

    async def route(scope, receive, send):
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            await _relay(scope, receive, send)
        else:
            await app(scope, receive, send)

    return route


async def _relay(scope, receive, send):
    name, _, rest = scope["path"].removeprefix(PATH).partition("/")
    provider = PROVIDERS.get(name)
    has_begun = False

    async def noted_send(message):
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        if provider is None:
            raise Refusal(404, "There is no such provider of models.")
        await _pass_on(provider, f"/{rest}", scope, receive, noted_send)
    except (Refusal, accounts.NotGiven) as refused:
        await _refuse(provider or PROVIDERS["anthropic"], refused.status, str(refused), send)
    except Exception as error:
        if has_begun:
            raise  # the server cuts the connection, so that the agent does not take a part for the whole
        # Broad on purpose: whatever fails, the agent hears of it in its provider's words.
        logger.exception("a request to a model failed")
        away = is_away(error)  # a status that the providers' clients try again
        await _refuse(provider, 503 if away else 500, outages.WORDS if away else "The model relay failed.", send)


async def _pass_on(provider: Provider, path: str, scope, receive, send):
    asked = (scope["method"], path)
    if asked not in provider.asks | provider.counts:
        raise Refusal(404, f"The model relay does not serve {scope['method']} {path[:200]}.")
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    token = token_in(headers)
    await query_in_thread(accounts.given_to, token, provider.name)
    body = await asyncio.to_thread(_read, await _whole(receive))
    given = await query_in_thread(accounts.given_to, token, provider.name, str(body.get("model") or "")[:200])
    _check(provider, body, given)
    if given.is_trial:
        kind, data = trial_model.answer(provider.name, path, body, counts=asked in provider.counts)
        await _send(200, kind, data, send)
        return
    call = None
    if asked in provider.asks:
        call = await _reserve(provider, body, given)
    from approvals.agent_runs.model_relay import forwarding  # here: aiohttp takes 12 MB, and few desks start agents

    data = await asyncio.to_thread(bodies.written, body)
    request = forwarding.Request(provider, path, given.key, headers, data)
    await forwarding.exchange(request, call, receive, send)


def _read(data: bytes) -> dict:
    try:
        return bodies.read(data)
    except bodies.BodyRefused as refused:
        raise Refusal(400, str(refused)) from None


def _check(provider: Provider, body: dict, given: accounts.Given):
    try:
        bodies.check(provider.name, body, with_tools=bool(given.models.get("tools")))
    except bodies.BodyRefused as refused:
        raise Refusal(400, str(refused)) from None


async def _reserve(provider: Provider, body: dict, given: accounts.Given):
    """Reserve what the request may use, and lower its limit to what the budget has left."""
    field = provider.output_field
    wanted = provider.default_output if body.get(field) is None else body[field]
    reserve = partial(accounts.reserve, given.run_id, provider.name, body["model"])
    size = await asyncio.to_thread(lambda: len(bodies.written(body)))
    call, limit = await query_in_thread(reserve, size=size, output=wanted)
    body[field] = limit  # also where the request names none: what is reserved is what the provider is told
    _shorten_thinking(body, limit)
    return call


def _shorten_thinking(body: dict, limit: int):
    """Anthropic refuses a budget for thinking that is not below the limit of the answer."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if type(budget) is int and budget >= limit:
        body["thinking"] = {"type": "disabled"}


async def _whole(receive) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The body is incomplete.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise Refusal(413, f"A request can have at most {MAX_BODY:,} bytes.")
        more = message.get("more_body", False)
    return b"".join(parts)


def token_in(headers: dict[str, str]) -> str:
    """Return the token of a request: agents send it as the key of the provider."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


async def _refuse(provider: Provider, status: int, message: str, send):
    await _send(status, "application/json", provider.error(status, message), send)


async def _send(status: int, kind: str, body: bytes, send):
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
