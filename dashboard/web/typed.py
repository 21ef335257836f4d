"""What a person typed into a form that could not be taken: its token had expired, or they were no longer signed in.

A view names the fields whose text it shows again, so no other field of a form is ever kept or sent back: no password
and no secret. Only what this site's own pages sent comes back, as another site could fill a form in somebody's name.
"""

from fnmatch import fnmatchcase
from functools import partial

from django.contrib import messages
from django.http import QueryDict
from django.shortcuts import render
from django.urls import resolve, reverse
from django.utils.translation import gettext
from django.views.decorators.csrf import requires_csrf_token

SESSION_KEY = "typed"
MAX_IN_SESSION = 8_000  # characters that wait in the session until their person has signed in again


def keeps_typed(*names: str, shown_at: str = "", in_session: bool = True):
    """Mark a view as one that shows these fields again, by `given`. Put it below the view's other decorators.

    `names` may have wildcards ("line-*"). `shown_at` is the name of the page that shows them, with the same arguments,
    if the view itself only takes the form. Without `in_session` nothing is stored while somebody signs in.
    """

    def mark(view):
        view.typed = names, shown_at, in_session
        return view

    return mark


def given(request) -> QueryDict:
    """Return the fields that a form is filled with again; an empty QueryDict for an ordinary request."""
    if not hasattr(request, "typed"):
        kept = request.session.get(SESSION_KEY) if request.method == "GET" else None
        is_for_here = kept is not None and kept["path"] == request.path
        request.typed = QueryDict(request.session.pop(SESSION_KEY)["fields"] if is_for_here else "")
    return request.typed


def keep_until_signed_in(request) -> str:
    """Keep what was typed for after the sign-in; return the address of the page that shows it, with its query."""
    names, shown_at, in_session = _marked(request)
    address = _address(request, shown_at)
    fields = _fields(request, names).urlencode() if in_session else ""
    if fields and len(fields) <= MAX_IN_SESSION and _is_from_here(request):
        request.session[SESSION_KEY] = {"path": address.partition("?")[0], "fields": fields}
    return address


@requires_csrf_token
def form_expired(request, reason=""):
    """Show the form again, filled in, with a notice; where that is not possible, link to the page that it was on."""
    names, shown_at, _ = _marked(request)
    if names is None or not request.user.is_authenticated or not _is_from_here(request):
        return render(request, "403_csrf.html", {"back": _came_from(request)}, status=403)
    request.typed = _fields(request, names)
    address = _address(request, shown_at)
    match = resolve(address.partition("?")[0])
    request.method, request.page_address = "GET", address
    messages.warning(request, gettext("This form had expired, so nothing was sent. Check it and send it again."))
    response = match.func(request, *match.args, **match.kwargs)
    response.status_code = 403 if response.status_code == 200 else response.status_code
    return response


def _marked(request) -> tuple:
    match = getattr(request, "resolver_match", None)
    return getattr(match.func, "typed", (None, "", False)) if match else (None, "", False)


def _fields(request, names) -> QueryDict:
    found = QueryDict(mutable=True)
    for name, values in request.POST.lists():
        if any(map(partial(fnmatchcase, name), names or ())):
            found.setlist(name, [value.replace("\0", "\ufffd") for value in values])
    return found


def _address(request, shown_at: str) -> str:
    match = request.resolver_match
    path = reverse(shown_at, args=match.args, kwargs=match.kwargs) if shown_at else request.path
    query = request.META.get("QUERY_STRING", "")
    return f"{path}?{query}" if query else path


def _is_from_here(request) -> bool:
    """Whether a browser says that a page of this site sent the form."""
    if site := request.headers.get("Sec-Fetch-Site"):
        return site == "same-origin"
    return request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"


def _came_from(request) -> str:
    """Return the address on this site of the page that sent the form; "" if that is not known."""
    here = f"{request.scheme}://{request.get_host()}/"
    referer = request.headers.get("Referer", "")
    return referer[len(here) - 1 :] if referer.startswith(here) else ""
