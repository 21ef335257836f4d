"""The page *Auto-approved*: what ran without asking and is worth a look, with a mark for what was looked at."""

from django.core.exceptions import PermissionDenied
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from approvals.reports import auto_approved as looks
from dashboard.database import clock
from dashboard.web import spans
from dashboard.web.pages import as_uuid, came_from, carry_out, parameters, signed_in, without

PAGE_ROWS = 50


@signed_in
@require_safe
def auto_approved(request):
    caller, now = request.caller, clock.now()
    span = spans.span_of(request, now, default=spans.VISIT)
    looked = parameters(request, "show")["show"] == "looked"
    found, ranked = looks.ranked(caller, span.since, span.until, looked=looked)
    begin = _begin(parameters(request, "from")["from"])
    rows = found[begin : begin + PAGE_ROWS]
    return render(
        request,
        "approvals/auto_approved.html",
        {
            "nav": "desk",
            "span": span,
            "span_words": spans.in_words(span),
            "spans": spans.links(request, span, now),
            "shows": _shows(request, looked),
            "looked": looked,
            "rows": [(each, not looked and caller.can("decide", each.action.team_id)) for each in rows],
            "total": len(found),
            "ranked": ranked,
            "is_cut": ranked == looks.MAX_RANKED,
            "max_ranked": looks.MAX_RANKED,
            "here": request.get_full_path(),
            "newer": _at(request, max(0, begin - PAGE_ROWS)) if begin else "",
            "older": _at(request, begin + PAGE_ROWS) if begin + PAGE_ROWS < len(found) else "",
            "may_mark": any(caller.can("decide", each.action.team_id) for each in rows) and not looked,
        },
    )


def _begin(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _at(request, begin: int) -> str:
    rest = without(request, "from")
    return f"?from={begin}" + (f"&{rest}" if rest else "")


def _shows(request, looked: bool) -> list[tuple]:
    rest = without(request, "show", "from")
    tail = f"&{rest}" if rest else ""
    return [
        (f"?{rest}", gettext("To look at"), not looked, None),
        (f"?show=looked{tail}", gettext("Checked"), looked, None),
    ]


@signed_in
@require_POST
def mark_looked(request):
    if not any(request.caller.can("decide", team) for team in request.caller.team_ids):
        raise PermissionDenied("decide")
    pks = [pk for pk in map(as_uuid, request.POST.getlist("action")) if pk]
    return carry_out(
        request,
        lambda: looks.mark_looked(request.caller, pks),
        then=came_from(request, "/unasked/"),
        say=lambda n: ngettext("Marked %(n)s as looked at.", "Marked %(n)s as looked at.", n) % {"n": n},
    )
