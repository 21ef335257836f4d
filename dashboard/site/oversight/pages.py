"""The page of the oversight report, and the report as a file."""

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.site.measures import period
from dashboard.site.measures.pages import chosen_team
from dashboard.site.oversight import files
from dashboard.site.oversight.figures import oversight
from dashboard.site.oversight.tables import tables
from dashboard.web.pages import must, parameters, signed_in


@signed_in
@require_safe
def page(request):
    team = chosen_team(request)
    must(request.caller, "read_measures", team)
    first, last = parameters(request, "from", "to").values()
    refused = ""
    try:
        chosen = period.read(first, last)
    except Problem as problem:
        chosen, refused = period.read(), problem.detail
    found = oversight(team, chosen, request.caller)
    return render(
        request,
        "measures/oversight.html",
        {
            "nav": "measures",
            "teams": Team.objects.visible_to(request.caller).order_by("name"),
            "measured": team,
            "period": chosen,
            "refused": refused,
            "tables": tables(found),
        },
    )


@signed_in
@require_safe
def file(request, kind: str):
    """Download the report; `kind` is csv, html or pdf."""
    team = chosen_team(request)
    must(request.caller, "read_measures", team)
    first, last = parameters(request, "from", "to").values()
    try:
        chosen = period.read(first, last)
    except Problem as problem:
        return HttpResponse(problem.detail + "\n", status=422, content_type="text/plain; charset=utf-8")
    if kind not in files.KINDS:
        raise Http404("no such kind")
    return as_file(oversight(team, chosen, request.caller), team, kind)


def as_file(found: dict, team: Team, kind: str) -> HttpResponse:
    """Answer with the report as a download of one of files.KINDS."""
    content = {
        "csv": lambda: files.as_csv(found),
        "html": lambda: files.as_html(found, team),
        "pdf": lambda: files.as_pdf(found, team),
    }[kind]()
    headers = {"Content-Disposition": f'attachment; filename="{files.name_of(found, kind)}"'}
    return HttpResponse(content, content_type=files.KINDS[kind], headers=headers)
