"""How a page answers: who asks, what is refused, where it goes on, and how long lists are cut."""

import re
from datetime import datetime
from functools import wraps
from urllib.parse import quote, urlsplit
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import Http404, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import defaults

from dashboard.access import caller_of
from dashboard.live import cursor_of
from dashboard.problems import Problem, not_found, problem_response


def signed_in(view):
    """Let only signed-in people through, with their Caller as `request.caller`; others sign in and come back."""

    @wraps(view)
    def wrapper(request, *args, **kwargs):
        if not request.user.is_authenticated:
            if request.htmx:
                # A redirect would be followed, and the sign-in page swapped into the fragment's place.
                return HttpResponse(status=204, headers={"HX-Redirect": _sign_in_for(request)})
            return redirect_to_login(request.get_full_path())
        request.caller = caller_of(request.user)
        if request.method == "GET" and not request.htmx:
            # Before anything is read for the page: what changes from here on is news to it.
            request.cursor = cursor_of(request.caller)
        return view(request, *args, **kwargs)

    return wrapper


def _sign_in_for(request) -> str:
    here = urlsplit(request.htmx.current_url or "/")
    return redirect_to_login(here.path + (f"?{here.query}" if here.query else "")).url


def must(caller, verb: str, team):
    """403 unless the caller may do `verb` in the team."""
    if not caller.can(verb, team):
        raise PermissionDenied(verb)


def go_to(request, address: str) -> HttpResponse:
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


def carry_out(request, do, *, then, otherwise: str = "", say=""):
    """Do one thing and go on to `then`; what is refused is a notice on the page `otherwise` (default: `then`).

    `then` and `say` may be functions of what `do` returned.
    """
    try:
        done = do()
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        messages.error(request, problem.detail)
        return go_to(request, otherwise or then)
    if words := say(done) if callable(say) else say:
        messages.success(request, words)
    return go_to(request, then(done) if callable(then) else then)


def came_from(request, default: str) -> str:
    """The page named by the form's `next`, when it is one of ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) and wanted.startswith("/")
    return wanted if ours else default


class Slice:
    """A page of a list, newest first, cut by a cursor in the address so that new rows shift nothing.

    `by` is the column of the order. `rows`, and `older` and `newer`: addresses or "".
    """

    def __init__(self, request, rows, *, by: str = "created_at", size: int = 50):
        self.by, query = by, request.GET.copy()
        before = query.pop("before", [""])[0]
        if cursor := _cursor(before, rows.model._meta.pk):
            moment, pk = cursor
            rows = rows.filter(Q(**{f"{by}__lt": moment}) | Q(**{by: moment}, pk__lt=pk))
        found = list(rows.order_by(f"-{by}", "-pk")[: size + 1])
        self.rows = found[:size]
        self.newer = f"?{query.urlencode()}" if before else ""
        self.older = ""
        if len(found) > size:
            query["before"] = f"{getattr(self.rows[-1], by).isoformat()}~{self.rows[-1].pk}"
            self.older = f"?{query.urlencode()}"

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


def _cursor(text: str, pk_field):
    moment, found, pk = text.partition("~")
    try:
        moment = datetime.fromisoformat(moment)
        return (moment, pk_field.to_python(pk)) if found and moment.tzinfo else None
    except (ValueError, ValidationError):
        return None


def asked(request, *names: str) -> dict[str, str]:
    """What an address or a form names, "" for what it does not; no database takes a NUL in a text."""
    named = request.POST if request.method == "POST" else request.GET
    return {name: named.get(name, "").replace("\0", "\ufffd").strip() for name in names}


def as_uuid(text: str) -> UUID | None:
    """None for what is no UUID; nothing has that id."""
    try:
        return UUID(text)
    except ValueError:
        return None


def without(request, *names: str) -> str:
    """The query of this address without some of its parameters and without a place in the list."""
    query = request.GET.copy()
    for name in (*names, "before"):
        query.pop(name, None)
    return query.urlencode()


# Strangers' bytes never act in our origin: no scripts, no frames, no forms, and saved rather than shown.
RAW_POLICY = "sandbox; default-src 'none'"


def download(request, chunks, name: str, kind: str = "application/octet-stream") -> StreamingHttpResponse:
    """Bytes to save, as they come: nothing is read ahead of the browser."""
    return StreamingHttpResponse(
        in_threads(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type=kind,
        headers={
            "Content-Disposition": f"attachment; {_named(name)}",
            "Content-Security-Policy": RAW_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
        },
    )


def _named(name: str) -> str:
    if re.fullmatch(r"[\w.-]+", name, re.ASCII):
        return f'filename="{name}"'
    return f"filename*=UTF-8''{quote(name, safe='')}"


async def in_threads(chunks):
    """An iterator for the async server, which would read a plain one to its end before it sends anything."""
    following = sync_to_async(next)
    while (chunk := await following(chunks, None)) is not None:
        yield chunk


def no_such_page(request, exception):
    """404 in the words of whoever asked: a problem on the API, a page elsewhere."""
    if request.path.startswith("/api/"):
        return problem_response(not_found("address"))
    return defaults.page_not_found(request, exception)
