"""The Measures page, its CSV file, and `/metrics` for Prometheus."""

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST, require_safe

from dashboard.models import Team
from dashboard.problems import Problem, not_allowed, problem_response
from dashboard.site.measures import csv_file, exposition, figures, period, spending
from dashboard.site.measures.forms import CapForm, PricesForm, cap_forms
from dashboard.web.api_base import Bearer
from dashboard.web.pages import carry_out, must, parameters, signed_in, take_form
from workspaces.models import CapMeasure, Prices
from workspaces.services import caps


def chosen_team(request) -> Team:
    """Return the team that the address names, else the caller's first by name; 404 if there is none."""
    teams = Team.objects.visible_to(request.caller).order_by("name")
    if slug := request.GET.get("team") or request.POST.get("team"):
        return get_object_or_404(teams, slug=slug)
    team = teams.first()
    if team is None:
        raise Http404("no team")
    return team


@signed_in
@require_safe
def measures(request):
    return _page(request, chosen_team(request))


def _page(request, team: Team, *, cap: CapForm | None = None, prices: PricesForm | None = None):
    """Render the page, with the form that was refused in the place of the one with today's values."""
    must(request.caller, "read_measures", team)
    first, last = parameters(request, "from", "to").values()
    refused = ""
    try:
        chosen = period.read(first, last)
    except Problem as problem:
        chosen, refused = period.read(), problem.detail
    return render(
        request,
        "measures/measures.html",
        {
            "nav": "measures",
            "teams": Team.objects.visible_to(request.caller).order_by("name"),
            "measured": team,
            "period": chosen,
            "refused": refused,
            "found": figures.measure(team, chosen, request.caller),
            "caps": caps.of(team),
            "cap_forms": cap_forms(team, cap),
            "prices_form": prices or _prices_form(team),
            "may_set": request.caller.can("set_caps", team),
            "may_lift": request.caller.can("lift_cap", team),
        },
    )


@signed_in
@require_safe
def measures_csv(request):
    team = chosen_team(request)
    must(request.caller, "read_measures", team)
    first, last = parameters(request, "from", "to").values()
    try:
        chosen = period.read(first, last)
    except Problem as problem:
        return HttpResponse(problem.detail + "\n", status=422, content_type="text/plain; charset=utf-8")
    name = f"handrail-{team.slug}-measures-{chosen.first}-{chosen.last}.csv"
    return HttpResponse(
        csv_file.write(figures.measure(team, chosen, request.caller)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@require_GET
def metrics(request):
    """Answer Prometheus as `/api/v1/metrics` does, at the address that it expects."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    caller = Bearer().authenticate(request, token.strip()) if kind.lower() == "bearer" else None
    if caller is None:
        answer = problem_response(Problem(401, "The Authorization header holds no valid token: Bearer hr_…"))
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    team = Team.objects.get(pk=caller.team_ids[0])
    if not caller.can("scrape_metrics", team):
        return problem_response(not_allowed("You don't have permission to do this."))
    return HttpResponse(exposition.text(team), content_type=exposition.CONTENT_TYPE)


def _there(team) -> str:
    return f"{reverse('measures')}?team={team.slug}"


@signed_in
@require_POST
def set_cap(request):
    """Set, change or remove a limit of the team; an empty amount removes it."""
    team = chosen_team(request)
    must(request.caller, "set_caps", team)
    measure = parameters(request, "measure")["measure"]
    if measure not in CapMeasure.values:
        raise Http404("no such limit")
    return take_form(
        request,
        CapForm(request.POST, measure=measure),
        lambda fields: caps.set_cap(team, measure, fields["amount"], by=request.caller.actor),
        shown=lambda form: _page(request, team, cap=form),
        then=_there(team),
        at="amount",
        say=gettext("Saved."),
    )


@signed_in
@require_POST
def lift_cap(request):
    """Lift a limit until the end of the month."""
    team = chosen_team(request)
    must(request.caller, "lift_cap", team)
    measure = parameters(request, "measure")["measure"]
    return carry_out(
        request,
        lambda: caps.lift(team, measure, by=request.caller.actor),
        then=_there(team),
        say=gettext("Lifted until the end of the month."),
    )


@signed_in
@require_POST
def set_prices(request):
    team = chosen_team(request)
    must(request.caller, "set_caps", team)
    return take_form(
        request,
        _prices_form(team, request.POST),
        lambda fields: spending.set_prices(team, fields, by=request.caller.actor),
        shown=lambda form: _page(request, team, prices=form),
        then=_there(team),
        at="currency",
        say=gettext("Saved."),
    )


def _prices_form(team: Team, data=None) -> PricesForm:
    return PricesForm(data, prices=Prices.objects.filter(team=team).first() or Prices(team=team))
