"""Building blocks of page views: sign-in, permissions, redirects, list pages and downloads."""

import re
from functools import partial, wraps
from urllib.parse import quote, urlsplit
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import defaults
from django.views.decorators.http import require_http_methods

from dashboard.live.feed import cursor_of
from dashboard.people import second_factor_rule, teams
from dashboard.people.access import caller_of
from dashboard.problems import Problem, not_found, problem_response
from dashboard.web import typed
from dashboard.web.background_requests import takes_parts
from dashboard.web.lookup import PAGE_SIZE, Order, page_of

READ_OR_WRITE = require_http_methods(["GET", "HEAD", "POST"])  # a view that shows a form and takes it


def signed_in(view):
    """Let only signed-in people through, with their Caller as `request.caller`; redirect others to the sign-in page."""

    @wraps(view)
    def wrapper(request, *args, **kwargs):
        if not request.user.is_authenticated:
            if request.htmx:
                # htmx would follow a redirect and swap the sign-in page into the fragment's place.
                return HttpResponse(status=204, headers={"HX-Redirect": _sign_in_for(request)})
            return redirect_to_login(
                typed.keep_until_signed_in(request) if request.method == "POST" else request.get_full_path()
            )
        request.caller = caller_of(request.user)
        if lacking := second_factor_rule.lacks(request, request.caller):
            return go_to(request, second_factor_rule.mend_at(lacking))
        if request.method == "GET" and not request.htmx:
            # Before the view reads anything: every later change is news to this page.
            request.cursor = cursor_of(request.caller)
        return _in_the_chosen_team(view, request, *args, **kwargs)

    return wrapper


def _in_the_chosen_team(view, request, *args, **kwargs):
    """Call the view for the team that the person chose to see; what is not there is looked for in all their teams."""
    whole = request.all_teams = request.caller
    request.caller = teams.narrowed(request, whole)
    try:
        return view(request, *args, **kwargs)
    except Http404:
        if request.caller is whole:
            raise
        request.caller = whole
        return view(request, *args, **kwargs)


def _sign_in_for(request) -> str:
    here = urlsplit(request.htmx.current_url or "/")
    return redirect_to_login(here.path + (f"?{here.query}" if here.query else "")).url


def must(caller, verb: str, team):
    """Raise PermissionDenied unless the caller may do `verb` in the team."""
    if not caller.can(verb, team):
        raise PermissionDenied(verb)


def go_to(request, address: str) -> HttpResponse:
    """Redirect to an address; by HX-Redirect for htmx, which would swap the page into a fragment otherwise."""
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


def carry_out(request, do, *, then, otherwise: str = "", say=""):
    """Call `do` and redirect to `then`; a Problem becomes an error notice on the page `otherwise` (default: `then`).

    `then` and `say` may be functions of what `do` returned. A Problem 404 becomes a 404 page.
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


def ask_first(request, *, title: str, says: str, verb: str, back: str, text: str = "", **more: str) -> HttpResponse:
    """Show what a form is going to delete or run; its button posts the form's fields, and `more`, to the same address.

    `text` is shown with its hidden characters as marks.
    """
    sent = request.POST if request.method == "POST" else request.GET
    own = ("csrfmiddlewaretoken", "confirmed")
    fields = [(name, each) for name, values in sent.lists() if name not in own for each in values]
    context = {"title": title, "says": says, "verb": verb, "back": back, "fields": [*fields, *more.items()]}
    show_at(request, back)
    return render(request, "ask_first.html", context | {"text": text})


def is_confirmed(request) -> bool:
    """Whether a request is a POST of a page that said what it is going to delete, as `ask_first` does."""
    return request.method == "POST" and request.POST.get("confirmed") == "yes"


def take_form(request, form, do, *, shown, then, at: str, otherwise: str = "", say="", keeps: bool = False):
    """Call `do` with a form's fields and redirect to `then`; an error is shown at its field on `shown(form)`.

    `at` is the field of a Problem 422 that names none. Any other Problem is no error of a field: it becomes a
    notice on the page `otherwise` (default: `then`), as in `carry_out`; with `keeps`, an error of the form, which shows
    what was typed again. The page that is shown again has that address.
    """
    show_at(request, otherwise or then)
    if not form.is_valid():
        return shown(form)
    try:
        done = do(form.cleaned_data)
    except Problem as problem:
        field = problem.extra.get("field", at if problem.status == 422 else None)
        if field not in form.fields and keeps and problem.status != 404:
            form.add_error(None, problem.detail)
            return shown(form)
        if field not in form.fields:
            return carry_out(request, partial(_again, problem), then=otherwise or then)
        form.add_error(field, problem.detail)
        return shown(form)
    return carry_out(request, lambda: done, then=then, say=say)


def show_at(request, address: str):
    """Give the response of a POST the address of the page that it shows again: the form's own address takes no GET.

    The page names it (base.html), and refresh.js puts it into the address bar, for live updates and a later reload.
    """
    request.page_address = address


def _again(problem: Problem):
    raise problem


def came_from(request, default: str) -> str:
    """Return the address in the form's `next` if it is on this site, else `default`."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) and wanted.startswith("/")
    return wanted if ours else default


class Slice:
    """One page of a list, with the links to its neighbours; its position is `before` in the query string.

    `by` is the column of the order, or an Order. `rows` is the page; `older` and `newer` are query strings, or "".
    """

    def __init__(self, request, rows, *, by: str | Order = "created_at", size: int = PAGE_SIZE):
        order = by if isinstance(by, Order) else Order(by)
        query = request.GET.copy()
        before = query.pop("before", [""])[0]
        try:
            page = page_of(rows, before, order=order, size=size)
        except Problem:
            page = page_of(rows, order=order, size=size)  # an address that was cut or mistyped shows the first page
        self.rows = page.rows
        self.newer = f"?{query.urlencode()}" if before else ""
        if page.cursor:
            query["before"] = page.cursor
        self.older = f"?{query.urlencode()}" if page.cursor else ""

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


def parameters(request, *names: str) -> dict[str, str]:
    """Return the named parameters of the query or form, "" if absent; NUL is replaced, as no database stores it."""
    named = request.POST if request.method == "POST" else request.GET
    return {name: named.get(name, "").replace("\0", "\ufffd").strip() for name in names}


def version_number(text: str) -> int:
    """Return the number of a version; Http404 for text that is none."""
    if not text.isdecimal() or len(text) > 8:
        raise Http404("no such version")
    return int(text)


def compared_versions(request, numbers: list[int]) -> tuple[int | None, int | None]:
    """Return the (from, to) that the query names. By default the newest of `numbers` and the one before `to`."""
    chosen = parameters(request, "from", "to") if request.method != "POST" else {"from": "", "to": ""}
    to = version_number(chosen["to"]) if chosen["to"] else max(numbers, default=None)
    if chosen["from"]:
        return version_number(chosen["from"]), to
    return max((number for number in numbers if to is not None and number < to), default=None), to


def as_uuid(text: str) -> UUID | None:
    """Return None for text that is not a UUID: nothing has that id."""
    try:
        return UUID(text)
    except ValueError:
        return None


def is_wide(request) -> bool:
    """Return False if the browser's last page was too narrow for a list beside a card (static/js/list-place.js)."""
    return request.COOKIES.get("handrail-wide") != "0"


def shown_once(request, name: str):
    """Remove a value from the session that a redirect left for the next page, and return it; None if there is none.

    A background request returns None: the page that sent it does not show the value, and the opened page needs it.
    """
    return None if takes_parts(request) else request.session.pop(name, None)


def without(request, *names: str) -> str:
    """Return this address's query string without some parameters and without the list's cursor."""
    query = request.GET.copy()
    for name in (*names, "before"):
        query.pop(name, None)
    return query.urlencode()


# Untrusted bytes never act in our origin: no scripts, frames or forms, and saved instead of shown.
RAW_POLICY = "sandbox; default-src 'none'"


def download(request, chunks, name: str = "", kind: str = "application/octet-stream") -> StreamingHttpResponse:
    """Stream bytes as an attachment without reading ahead of the browser; the URL names the file if `name` does not."""
    return StreamingHttpResponse(
        in_threads(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type=kind,
        headers={
            "Content-Disposition": f"attachment; {_named(name)}" if name else "attachment",
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
    """Make an iterator async; the async server would read a plain one to its end before it sends anything."""
    following = sync_to_async(next)
    while (chunk := await following(chunks, None)) is not None:
        yield chunk


class Gone(Http404):
    """The page's object was deleted for good: answered with a 410 page that says when, if the viewer may see it."""

    def __init__(self, name: str, *, at, why: str):
        super().__init__(name)
        self.name, self.at, self.why = name, at, why


def no_such_page(request, exception):
    """Answer 404 as a problem on the API, as a page elsewhere; a Gone gets its 410 page."""
    if isinstance(exception, Gone):
        return render(request, "410.html", {"gone": exception}, status=410)
    if request.path.startswith("/api/"):
        return problem_response(not_found("address"))
    return defaults.page_not_found(request, exception)
