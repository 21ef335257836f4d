"""The desk's own host name for browsers in the default set-up, `handrail.localhost`, and the cookies that go with it.

Cookies are not separated by port: a browser sends a session cookie of 127.0.0.1 to every dev server opened at
127.0.0.1 on this machine. Programs keep using 127.0.0.1, since most cannot resolve names below localhost.
"""

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port
from django.utils.decorators import sync_and_async_middleware

FOR_PROGRAMS = ("/api/", "/hooks/", "/aap/", "/e2b/", "/static/", "/healthz", "/readyz", "/hosts/")
PREFIX = "__Host-"


def refuses_secure(cookies) -> bool:
    """Return True if the browser kept only our plain CSRF cookie: not all take Secure ones over HTTP on localhost."""
    kept = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return settings.CSRF_COOKIE_NAME.removeprefix(PREFIX) in cookies and not any(name in cookies for name in kept)


def session_key(cookies) -> str | None:
    """Return the session key in a browser's cookies, or None."""
    name = settings.SESSION_COOKIE_NAME
    if settings.HANDRAIL_DESK_IS_LOCAL and refuses_secure(cookies):
        name = name.removeprefix(PREFIX)
    return cookies.get(name)


@sync_and_async_middleware
def redirect_to_desk_name(get_response):
    """Redirect browsers from every other local name to the desk's own, before any cookie is set."""
    if iscoroutinefunction(get_response):

        async def middleware(request):
            return _redirect(request) or _adapt_cookies(request, await get_response(_accept_plain_cookies(request)))

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        return _redirect(request) or _adapt_cookies(request, get_response(_accept_plain_cookies(request)))

    return middleware


def _redirect(request) -> HttpResponse | None:
    name, _ = split_domain_port(request.headers.get("Host", "").lower())
    if name not in settings.HANDRAIL_LOCAL_NAMES or request.path_info.startswith(FOR_PROGRAMS):
        return None
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(f"Pages are at {settings.HANDRAIL_DESK_URL}/\n", status=421, content_type="text/plain")
    response = HttpResponseRedirect(settings.HANDRAIL_DESK_URL + request.get_full_path())
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"  # a sign-in address contains a secret
    return response


def _accept_plain_cookies(request):
    """Accept the plain cookies of a browser that refuses Secure ones here."""
    request.refuses_secure = refuses_secure(request.COOKIES)
    if request.refuses_secure:
        for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
            if (value := request.COOKIES.get(name.removeprefix(PREFIX))) is not None:
                request.COOKIES[name] = value
    return request


def _adapt_cookies(request, response):
    """Set the session cookie in the form the browser accepts. The CSRF cookie is set in both, which reveals which."""
    session, csrf = settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME
    if csrf in response.cookies:
        _also_plain(response, csrf)
    if session in response.cookies and request.refuses_secure:
        _also_plain(response, session)
        del response.cookies[session]
    return response


def _also_plain(response, name: str):
    plain = name.removeprefix(PREFIX)
    response.cookies[plain] = response.cookies[name].value
    response.cookies[plain].update({**response.cookies[name], "secure": ""})
