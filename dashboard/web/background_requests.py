"""Requests that a page sends by itself, whose answers are not shown as pages."""


def takes_parts(request) -> bool:
    """Return True if the browser takes only parts of the page, in the background: refresh.js does, and each hx-get."""
    htmx = getattr(request, "htmx", None)  # absent when a middleware before htmx's answers
    return "X-Handrail-Refresh" in request.headers or bool(htmx and not htmx.history_restore_request)
