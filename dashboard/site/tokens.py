"""The Tokens page: all tokens of agents and people in the teams of an admin."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.people import token_list, tokens
from dashboard.web.pages import Slice, carry_out, must, parameters, signed_in


@signed_in
@require_safe
def listing(request):
    managed = _managed(request.caller)
    chosen = parameters(request, "state", "kind", "team", "q")
    rows = token_list.of_teams([team.pk for team in managed])
    state = chosen["state"] if chosen["state"] in (*token_list.STATES, "all") else "live"
    if state != "all":
        rows = token_list.in_state(rows, state)
    if chosen["kind"]:
        rows = token_list.of_kind(rows, chosen["kind"]) if chosen["kind"] in token_list.KINDS else rows.none()
    if chosen["team"]:
        rows = rows.filter(team__slug=chosen["team"])
    if chosen["q"]:
        rows = rows.filter(token_list.named(chosen["q"]))
    shown = Slice(request, rows)
    every = token_list.of_teams([team.pk for team in managed])
    context = {"nav": "team", "teams": managed, "tokens": shown, "chosen": chosen | {"state": state}}
    context |= {"states": token_list.STATES, "kinds": token_list.KINDS}
    context["unused"] = [(team, count) for team in managed if (count := _unused(every, team))]
    return render(request, "dashboard/tokens.html", context)


def _managed(caller) -> list[Team]:
    """Return the teams whose tokens the caller manages; PermissionDenied if there is none."""
    teams = [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_tokens", t)]
    if not teams:
        raise PermissionDenied("manage_tokens")
    return teams


def _unused(every, team: Team) -> int:
    return token_list.in_state(every.filter(team=team, for_run=False), "unused").count()


@signed_in
@require_POST
def revoke(request, pk):
    found = get_object_or_404(token_list.of_teams(request.caller.team_ids), pk=pk)
    must(request.caller, "manage_tokens", found.team)

    def end():
        tokens.revoke(found, by=request.caller.actor)

    said = gettext("Token %(prefix)s… is revoked.") % {"prefix": found.prefix}
    return carry_out(request, end, then=reverse("tokens"), say=said)


@signed_in
@require_POST
def revoke_unused(request):
    """Revoke the tokens of a team that nobody used for 90 days."""
    teams = Team.objects.visible_to(request.caller)
    slug = request.POST.get("team", "")
    team = get_object_or_404(teams, slug=slug)
    must(request.caller, "manage_tokens", team)
    count = token_list.revoke_unused(team, by=request.caller.actor)
    messages.success(request, ngettext("Revoked %(n)d token.", "Revoked %(n)d tokens.", count) % {"n": count})
    return redirect("tokens")
