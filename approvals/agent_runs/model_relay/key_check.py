"""Ask a provider for the smallest answer with the team's key, and say in words what came back."""

from dataclasses import dataclass

import aiohttp
from asgiref.sync import async_to_sync

from approvals.agent_runs.model_relay import forwarding
from approvals.agent_runs.model_relay.providers import PROVIDERS, Provider
from dashboard import json_text
from dashboard.models import Actor, Event, Team
from dashboard.net import outbound
from dashboard.problems import conflict
from workspaces import secrets

SECONDS = 30
MAX_BODY = 64 * 1024  # bytes of the answer that are read
MAX_WORDS = 300  # characters of the provider's own words
VERSION = "2023-06-01"  # of Anthropic's API


@dataclass(frozen=True)
class Answer:
    """What the provider answered: its status (None if it was not reached), and that in words."""

    status: int | None
    words: str

    @property
    def is_good(self) -> bool:
        return self.status is not None and self.status < 300


def check(team: Team, provider_name: str, secret: str, model: str, *, by: Actor) -> Answer:
    """Send one request with the key, which costs a few tokens, and record what came back. Problem 409 without a key."""
    provider = PROVIDERS[provider_name]
    key = secrets.for_models(team.pk, secret)
    if not key:
        raise conflict(f"The secret {secret}, given to Handrail for models, is not set.")
    path, body = provider.smallest(model)
    headers = {provider.version_header: VERSION} if provider.version_header else {}
    request = forwarding.Request(provider, path, key, headers, json_text.dumps(body).encode())
    found = async_to_sync(_ask)(request, model)
    data = {"provider": provider.name, "secret": secret, "model": model, "status": found.status}
    Event.objects.record(team, actor=by, verb="agent_key.tried", subject=team, data=data)
    return found


async def _ask(request: forwarding.Request, model: str) -> Answer:
    timeout, provider = aiohttp.ClientTimeout(total=SECONDS), request.provider
    try:
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            by = await outbound.aiohttp_options(request.url)
            asked = {"data": request.data, "headers": request.sent_headers, "allow_redirects": False}
            async with session.post(request.url, **asked, **by) as response:
                said = await response.content.read(MAX_BODY)
                return Answer(response.status, _in_words(provider, response.status, said, model))
    except forwarding.FAILED as error:
        return Answer(None, f"{provider.title} was not reached: {str(error) or type(error).__name__}.")


def _in_words(provider: Provider, status: int, said: bytes, model: str) -> str:
    if status < 300:
        return f"{provider.title} answered: the key works, and {model} can be asked."
    words = _message(said)
    return f"{provider.title} answered {status}{f': {words}' if words else ''}."


def _message(said: bytes) -> str:
    """Return the message of a provider's error, "" if the answer has none in the usual place."""
    try:
        error = json_text.loads(said).get("error")
    except (ValueError, AttributeError, RecursionError):
        return ""
    words = error.get("message") if isinstance(error, dict) else ""
    return " ".join(str(words or "").split())[:MAX_WORDS].rstrip(".")
