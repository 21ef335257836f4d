"""Find every verb that the installed routes can cause, and refuse to start with one that is not declared."""

import re
from collections.abc import Iterator

from channels.security.websocket import WebsocketDenier
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLResolver

from dashboard.door.entering import name_of
from dashboard.door.table import VERBS

_CONVERTED = re.compile(r"\{(?:\w+:)?(\w+)\}")  # a part of a path as ninja has it: {file:path}


def takes_tokens(*methods: str):
    """Mark a Django view that gets its caller from a token, and the methods that it takes."""

    def mark(view):
        view.token_methods = methods
        return view

    return mark


def refuse_undeclared(api, urlpatterns, sockets):
    """Raise ImproperlyConfigured for a route that a token opens and that the table does not have."""
    found = {*of_api(api), *of_views(urlpatterns), *of_sockets(sockets)}
    if missing := sorted(found - VERBS.keys()):
        raise ImproperlyConfigured(f"Declare in dashboard/door/table.py what agents may do with {', '.join(missing)}.")


def of_api(api) -> Iterator[str]:
    """Yield the verbs of the operations of a NinjaAPI."""
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            address = _CONVERTED.sub(r"{\1}", prefix + path)
            yield from (f"{method} {address}" for operation in view.operations for method in operation.methods)


def of_views(urlpatterns, before: str = "") -> Iterator[str]:
    """Yield the verbs of the Django views that take tokens."""
    for entry in urlpatterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from of_views(entry.url_patterns, route)
        else:
            yield from (name_of(method, route) for method in getattr(entry.callback, "token_methods", ()))


def of_sockets(sockets) -> Iterator[str]:
    """Yield the verbs of WebSocket consumers; each consumer names its own."""
    for pattern in sockets:
        consumer = pattern.callback.consumer_class
        if not issubclass(consumer, WebsocketDenier):
            yield from consumer.VERBS
