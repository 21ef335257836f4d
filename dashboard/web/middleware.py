"""Middleware: request ids for the logs, the viewer's zone and language, and Django's own, made to run in the loop."""

import uuid
import zoneinfo

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.gzip import GZipMiddleware
from django.middleware.security import SecurityMiddleware
from django.shortcuts import render
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from dashboard.door import entering
from dashboard.logs import about
from dashboard.net.desk_name import FOR_PROGRAMS
from dashboard.problems import of_text
from dashboard.web.background_requests import takes_parts


@sync_and_async_middleware
def request_id(get_response):
    """Give each request an id, shown in its log lines and in the response's X-Request-Id."""
    if iscoroutinefunction(get_response):

        async def middleware(request):
            request.id = str(uuid.uuid4())
            entering.leave()
            with about(request=request.id):
                response = await get_response(request)
            response["X-Request-Id"] = request.id
            return response

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        request.id = str(uuid.uuid4())
        entering.leave()
        with about(request=request.id):
            response = get_response(request)
        response["X-Request-Id"] = request.id
        return response

    return middleware


@sync_and_async_middleware
def time_zone(get_response):
    """Show times in the zone that the viewer's browser stored in a cookie (static/js/time.js sets it)."""

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


@sync_and_async_middleware
def language(get_response):
    """Answer in the language that the viewer chose (a cookie), else in the one that the browser asks for first.

    What programs read is English whoever asks. Only pages are translated.
    """

    def wanted(request) -> str:
        if request.path_info.startswith(FOR_PROGRAMS):
            return settings.LANGUAGE_CODE
        return translation.get_language_from_request(request)

    def leave(code: str, response):
        response.headers.setdefault("Content-Language", code)
        patch_vary_headers(response, ["Accept-Language", "Cookie"])
        return response

    if iscoroutinefunction(get_response):

        async def middleware(request):
            code = wanted(request)
            with translation.override(code):
                return leave(code, await get_response(request))

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        code = wanted(request)
        with translation.override(code):
            return leave(code, get_response(request))

    return middleware


class InLoop:
    """Mixin for Django middlewares that only use the request: they run in the event loop of an async request.

    Unmodified, each of them takes the request to a thread and back, twice.
    """

    async def __acall__(self, request):
        response = self.process_request(request) if hasattr(self, "process_request") else None
        response = response or await self.get_response(request)
        if not hasattr(self, "process_response"):
            return response
        if self.writes(request):
            return await sync_to_async(self.process_response)(request, response)
        return self.process_response(request, response)

    def writes(self, request) -> bool:
        """Return True if `process_response` uses the database."""
        return False


class Security(InLoop, SecurityMiddleware):
    pass


class ContentSecurityPolicy(InLoop, CSPMiddleware):
    pass


class Common(InLoop, CommonMiddleware):
    pass


class Authentication(InLoop, AuthenticationMiddleware):
    pass


class UnstorableText(InLoop, MiddlewareMixin):
    """Answers a page's form whose text no database stores."""

    def process_exception(self, request, error):
        return render(request, "400.html", status=400) if of_text(error) else None


class Frames(InLoop, XFrameOptionsMiddleware):
    pass


class Sessions(InLoop, SessionMiddleware):
    def writes(self, request) -> bool:
        return request.session.modified


class Messages(InLoop, MessageMiddleware):
    def writes(self, request) -> bool:
        return request._messages.used or request._messages.added_new

    def process_response(self, request, response):
        # A page that reads itself again shows no notice, so it must not leave one either: it would take the place of
        # the notice of a form that the person sent meanwhile.
        if request.method in ("GET", "HEAD") and takes_parts(request):
            return response
        return super().process_response(request, response)


class Csrf(InLoop, CsrfViewMiddleware):
    def __init__(self, get_response):
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            self.process_view = self._process_view

    async def _process_view(self, request, callback, args, kwargs):
        check = super().process_view
        if request.method in ("GET", "HEAD") or getattr(callback, "csrf_exempt", False):
            return check(request, callback, args, kwargs)
        return await sync_to_async(check)(request, callback, args, kwargs)  # it reads the body


class Compression(GZipMiddleware):
    """Compress pages, padded at random, except those that show a secret; decision 52 says why.

    Those are answers that nothing may store, and the pages of sign-in and second factors.
    """

    LARGE = 100_000  # bytes: from here on it takes milliseconds, for which others in the loop would wait

    async def __acall__(self, request):
        response = await self.get_response(request)
        if not self.is_page(request, response):
            return response
        if len(response.content) < self.LARGE:
            return super().process_response(request, response)
        return await sync_to_async(super().process_response)(request, response)

    def process_response(self, request, response):
        return super().process_response(request, response) if self.is_page(request, response) else response

    @staticmethod
    def is_page(request, response) -> bool:
        return (
            not response.streaming
            and response.get("Content-Type", "").startswith("text/html")
            and "no-store" not in response.get("Cache-Control", "")
            and not request.path_info.startswith(("/accounts/", "/sign-in/"))
        )


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise for async requests: unmodified, each long-polling request would occupy a thread."""

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
