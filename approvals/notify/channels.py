"""Channels besides Web Push, by apprise: check a person's URL, keep it encrypted, send through it.

Only services and parameters of these lists: others of apprise run programs, or read files of this machine.
"""

import sys
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

from django.db import transaction

from approvals.models import Channel
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.net import outbound
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import conflict, invalid
from dashboard.workers.outbox import NotSent
from workspaces.services.outbound import only_reachable

SERVICES = {
    "ntfy": "ntfy (http)",
    "ntfys": "ntfy",
    "slack": "Slack",
    "tgram": "Telegram",
    "matrix": "Matrix (http)",
    "matrixs": "Matrix",
    "discord": "Discord",
    "gotify": "Gotify (http)",
    "gotifys": "Gotify",
    "pover": "Pushover",
    "mailto": "E-mail",
    "mailtos": "E-mail",
}
WITH_HOST = {"ntfy", "ntfys", "mailto", "mailtos", "matrix", "matrixs", "gotify", "gotifys"}
PARAMETERS = {"to", "from", "name", "smtp", "user", "pass", "mode", "priority", "tags", "auth", "token"}
MAX_URL, MAX_CHANNELS = 500, 10


def add(user, url: str, *, with_title: bool) -> Channel:
    """Store a channel of the person. Problem 422 for a URL that is not taken, 409 for too many."""
    url = url.strip()
    label = label_of(url)
    if Channel.objects.filter(user=user).count() >= MAX_CHANNELS:
        raise conflict(f"You have {MAX_CHANNELS} channels. Remove one first.", code="too_many_channels")
    channel = Channel(user=user, label=label, with_title=with_title, created_at=clock.now())
    with keyring.steady() as ring, transaction.atomic():
        channel.value = ring.encrypt(url.encode(), associated_data(channel))
        channel.save(force_insert=True)
        record_for_person(user, "person.channel_added", channel=label, with_title=with_title)
    return channel


def label_of(url: str) -> str:
    """Return what people call the channel, without credentials. Problem 422 if the URL is not taken."""
    try:
        parts = urlsplit(url)
        parameters = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        host = parts.hostname or ""
    except ValueError:
        raise invalid("This is not a URL.") from None
    if len(url) > MAX_URL or parts.scheme not in SERVICES:
        raise invalid(f"The URL must begin with one of: {', '.join(f'{name}://' for name in SERVICES)}.")
    if parts.query.count("&") > 20 or not parameters <= PARAMETERS:
        raise invalid(f"These parameters are taken: {', '.join(sorted(PARAMETERS))}.")
    if not parts.netloc or _plugin(url) is None:
        raise invalid("The URL lacks something that this service needs. See apprise's page on it.")
    # The host of other services is a part of the credentials, and so is the topic in ntfys://TOPIC.
    named = parts.scheme in WITH_HOST and "." in host
    return f"{SERVICES[parts.scheme]} ({host[:80]})" if named else SERVICES[parts.scheme]


def send(channel: Channel, title: str, body: str):
    """Send one message. Raise NotSent."""
    try:
        url = keyring.load().decrypt(channel.value, associated_data(channel)).decode()
    except keyring.Unreadable as error:
        raise NotSent("Its URL can't be decrypted. Add the channel again.") from error
    plugin = _plugin(url)
    if plugin is None:
        raise NotSent("Its URL is no longer valid. Add the channel again.")
    with only_reachable():
        try:
            sent = plugin.notify(title=title, body=body)
        except (OSError, TypeError, ValueError) as error:
            raise NotSent(f"{type(error).__name__} while sending.") from None
    if not sent:
        raise NotSent("The service could not be reached, or refused the message.")


def associated_data(channel: Channel) -> str:
    return f"channel {channel.pk}"


def encrypted_column():
    """Return the queryset and associated data for the rotation of keys (workspaces.secrets)."""
    return Channel.objects.all(), associated_data


def _plugin(url: str):
    import apprise  # here: it takes half a second, and only the queue and one form need it

    plugin = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if plugin is not None:
        _send_by_our_seam(sys.modules[type(plugin).__module__])
    return plugin


def _send_by_our_seam(module):
    """Make a plugin's module use `outbound` where it would call requests, whose proxies apprise cannot be told."""
    requests = getattr(module, "requests", None)
    if requests is None or isinstance(requests, SimpleNamespace):
        return  # e-mail, which goes straight to its server

    def by(method: str):
        return lambda url, *args, **options: _requested(method, url, *args, **options)

    methods = {method: by(method) for method in ("get", "post", "put", "delete", "head", "patch")}
    module.requests = SimpleNamespace(**vars(requests) | methods)


def _requested(method: str, url: str, *args, **options):
    with outbound.session() as session:
        return getattr(session, method)(url, *args, **options)
