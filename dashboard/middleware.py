"""Our own middleware: a request's id for the logs, the viewer's time zone for the pages."""

import uuid
import zoneinfo

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from whitenoise.middleware import WhiteNoiseMiddleware

from dashboard.logs import about


@sync_and_async_middleware
def request_id(get_response):
    """Give each request an id, on its log lines and in the answer's X-Request-Id."""

    if iscoroutinefunction(get_response):

        async def middleware(request):
            request.id = uuid.uuid4().hex[:12]
            with about(request=request.id):
                response = await get_response(request)
            response["X-Request-Id"] = request.id
            return response

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        request.id = uuid.uuid4().hex[:12]
        with about(request=request.id):
            response = get_response(request)
        response["X-Request-Id"] = request.id
        return response

    return middleware


@sync_and_async_middleware
def time_zone(get_response):
    """Times on a page are in the zone that the viewer's browser named in a cookie (static/js/time.js sets it)."""

    def enter(request):
        try:
            timezone.activate(zoneinfo.ZoneInfo(request.COOKIES.get("handrail-zone", "UTC")))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            timezone.deactivate()

    if iscoroutinefunction(get_response):

        async def middleware(request):
            enter(request)
            return await get_response(request)

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        enter(request)
        return get_response(request)

    return middleware


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise for async requests too: as it comes, each request that waits for an answer would hold a thread."""

    async_capable = True

    def __init__(self, get_response):
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request):
        return self._answer(request) if iscoroutinefunction(self) else super().__call__(request)

    async def _answer(self, request):
        path = request.path_info
        if not path.startswith(self.static_prefix):
            return await self.get_response(request)
        found = await sync_to_async(self.find_file)(path) if self.autorefresh else self.files.get(path)
        if found is None:
            return await self.get_response(request)
        return await sync_to_async(self.serve)(found, request)
