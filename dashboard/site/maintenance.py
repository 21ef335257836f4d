"""The header of the API that tells programs of maintenance."""

from urllib.parse import quote

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.db import Error
from django.utils.decorators import sync_and_async_middleware

from dashboard.database.threads import query_in_thread
from dashboard.models import Banner

HEADER = "Handrail-Maintenance"


@sync_and_async_middleware
def tell_programs(get_response):
    """Add the maintenance banner to each response of the API, percent-encoded, with its end."""
    if iscoroutinefunction(get_response):

        async def middleware(request):
            response = await get_response(request)
            if request.path_info.startswith("/api/"):
                _say(response, await query_in_thread(_current))
            return response

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        response = get_response(request)
        if request.path_info.startswith("/api/"):
            _say(response, _current())
        return response

    return middleware


def _current() -> Banner | None:
    """Return the banner, or None if the database fails: the answer is made already, and stays what it is."""
    try:
        return Banner.objects.current()
    except Error:
        return None


def _say(response, banner: Banner | None):
    if banner:
        until = banner.until_at.isoformat(timespec="seconds")
        response[HEADER] = f"{quote(banner.text, safe=' ,.:;!?()')}; until={until}"
