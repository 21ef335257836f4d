"""The Team and Agents pages: people, their roles and invitations, agents and their tokens."""

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, Subquery
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from dashboard import clock, tokens
from dashboard.models import Agent, Event, Membership, Role, SignInLink, Team, Token
from dashboard.pages import carry_out, must, signed_in
from dashboard.people import members, passkeys
from dashboard.people.provisioning import agent_of, token_for
from dashboard.problems import conflict
from dashboard.site import invitations
from dashboard.site.invitations import LINK_VALID, MAX_INVITED

# Team ----------------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def team(request):
    return _team_page(request)


def _team_page(request, **more):
    caller = request.caller
    links = SignInLink.objects.filter(user=OuterRef("user"), used_at=None, expires_at__gt=clock.now())
    memberships = (
        Membership.objects.filter(team__in=caller.team_ids)
        .select_related("user", "team")
        .annotate(link_until=Subquery(links.order_by("-expires_at").values("expires_at")[:1]))
        .annotate(has_passkey=Exists(Authenticator.objects.filter(user=OuterRef("user"), type="webauthn")))
        .order_by("team__name", "user__username")
    )
    teams: dict = {}
    for membership in memberships:
        teams.setdefault(membership.team, []).append(membership)
    context = {"nav": "team", "roles": list(Role), "at_once": MAX_INVITED, **more}
    context["teams"] = [
        {
            "team": found,
            "people": [one for one in people if one.user.last_login],
            "invited": [one for one in people if not one.user.last_login],
            "may_manage": caller.can("manage_people", found),
        }
        for found, people in teams.items()
    ]
    return render(request, "dashboard/team.html", context)


@signed_in
@require_POST
def invite_people(request):
    """Invite a pasted list of people; their links are in this response and nowhere else."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_people", found)
    text, role = request.POST.get("people", ""), request.POST.get("role", "")
    try:
        if role not in Role.values:
            raise ValidationError(gettext("A role is one of %(join)s.") % {"join": ", ".join(Role.values)})
        links, known = invitations.invite(found, text, role, by=request.caller.actor)
    except ValidationError as error:
        refused = {"team": found, "people": text, "role": role, "why": error.messages}
        return _team_page(request, refused=refused)
    return _show_links(request, found, links, known=known, role=Role(role).label)


def _show_links(request, found: Team, links, **more):
    context = {"nav": "team", "in_team": found, "links": links, "days": LINK_VALID.days, **more}
    response = render(request, "dashboard/invitation_links.html", context)
    response["Cache-Control"] = "no-store"
    return response


def _record(request, found: Team, verb: str, subject, **data):
    Event.objects.record(found, actor=request.caller.actor, verb=verb, subject=subject, data=data)


def _membership(request, pk) -> Membership:
    found = get_object_or_404(
        Membership.objects.filter(team__in=request.caller.team_ids).select_related("team", "user"), pk=pk
    )
    must(request.caller, "manage_people", found.team)
    return found


@signed_in
@require_POST
def change_role(request, pk):
    membership, role = _membership(request, pk), request.POST.get("role", "")

    def change():
        members.change_role(membership, role, by=request.caller.actor)

    return carry_out(
        request,
        change,
        then=reverse("team"),
        say=gettext("%(user)s is now %(role)s.") % {"user": membership.user, "role": role},
    )


@signed_in
@require_POST
def remove_person(request, pk):
    """Remove a person from the team; their open pages and tokens stop working within 30 seconds."""
    membership = _membership(request, pk)

    def remove():
        members.remove(membership, by=request.caller.actor)

    return carry_out(
        request,
        remove,
        then=reverse("team"),
        say=gettext("%(user)s is no longer in the team.") % {"user": membership.user},
    )


@signed_in
@require_POST
def new_link(request, pk):
    """Create another one-time link for a person who is in this team only."""
    membership = _membership(request, pk)
    if not invitations.may_be_linked(membership.user, membership.team):
        why = f"{membership.user} is also in other teams, or is an operator"
        messages.error(request, f"{why}. Only an operator can create a link, with manage.py sign_in_url.")
        return redirect("team")
    with transaction.atomic():
        _record(request, membership.team, "person.link_made", membership.user)
        link = invitations.make_invitation(membership.user)
    return _show_links(request, membership.team, [link])


@signed_in
@require_POST
@reauthentication_required(app="allauth.mfa")
def require_passkeys(request):
    """Switch on or off whether critical actions of a team are approved only with a passkey."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_people", found)
    wanted = request.POST.get("passkeys") == "required"

    def switch():
        if wanted and (reason := passkeys.why_not_at(settings.HANDRAIL_DESK_URL)):
            raise conflict(
                gettext("Nobody could approve critical actions: passkeys don't work at this address. %(reason)s")
                % {"reason": reason}
            )
        with transaction.atomic():
            if Team.objects.filter(pk=found.pk, requires_passkey=not wanted).update(requires_passkey=wanted):
                _record(request, found, "team.passkey_required" if wanted else "team.passkey_not_required", found)

    words = (
        gettext("Critical actions now take a passkey.")
        if wanted
        else gettext("Critical actions take a passkey of who has one.")
    )
    return carry_out(request, switch, then=reverse("team"), say=words)


# Agents --------------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def agents(request):
    caller = request.caller
    live_tokens = Count("tokens", filter=Q(tokens__revoked_at=None), distinct=True)
    found = (
        Agent.objects.visible_to(caller)
        .select_related("owner", "team")
        .annotate(live_tokens=live_tokens)
        .order_by("name", "pk")[:200]
    )
    of_agents: dict = {}
    for token in Token.objects.live().visible_to(caller).filter(agent__in=[a.pk for a in found]).order_by("created_at"):
        of_agents.setdefault(token.agent_id, []).append(token)
    new_token = request.session.pop("new_token", None)
    response = render(
        request,
        "dashboard/agents.html",
        {
            "nav": "agents",
            "agents": [(a, of_agents.get(a.pk, []), caller.can("manage_agents", a.team_id)) for a in found],
            "teams": [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_agents", t)],
            "new_token": new_token,
        },
    )
    if new_token:
        response["Cache-Control"] = "no-store"
    return response


def _agent(request, pk) -> Agent:
    found = get_object_or_404(Agent.objects.visible_to(request.caller).select_related("team", "owner"), pk=pk)
    must(request.caller, "manage_agents", found.team)
    return found


@signed_in
@require_POST
def add_agent(request):
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_agents", found)
    try:
        agent = agent_of(found, request.POST.get("name", ""))
    except ValidationError as error:
        messages.error(request, error.messages[0])
        return redirect("agents")
    if agent.owner is None:
        Agent.objects.filter(pk=agent.pk, owner=None).update(owner=request.user)
    return _with_token(request, agent)


def _with_token(request, agent):
    plain = token_for(agent.team, by=f"{request.user.get_username()} on the Agents page", agent=agent)
    request.session["new_token"] = {"agent": agent.name, "plain": plain}
    return redirect("agents")


@signed_in
@require_POST
def make_token(request, pk):
    return _with_token(request, _agent(request, pk))


@signed_in
@require_POST
def pause_agent(request, pk):
    """Pause an agent: its tokens are refused and its hooks denied."""
    agent = _agent(request, pk)

    def pause():
        with transaction.atomic():
            if not Agent.objects.filter(pk=agent.pk, paused_at=None).update(paused_at=clock.now()):
                raise conflict(gettext("%(agent)s is already paused.") % {"agent": agent})
            _record(request, agent.team, "agent.paused", agent)

    return carry_out(
        request,
        pause,
        then=reverse("agents"),
        say=gettext("%(agent)s is paused. All its requests are denied.") % {"agent": agent},
    )


@signed_in
@require_POST
def unpause_agent(request, pk):
    agent = _agent(request, pk)

    def unpause():
        with transaction.atomic():
            if not Agent.objects.filter(pk=agent.pk, paused_at__isnull=False).update(paused_at=None):
                raise conflict(gettext("%(agent)s is not paused.") % {"agent": agent})
            _record(request, agent.team, "agent.unpaused", agent)

    return carry_out(request, unpause, then=reverse("agents"), say=gettext("%(agent)s is resumed.") % {"agent": agent})


@signed_in
@require_POST
def revoke_token(request, pk):
    token = get_object_or_404(
        Token.objects.visible_to(request.caller).filter(agent__isnull=False).select_related("team", "agent"), pk=pk
    )
    must(request.caller, "manage_agents", token.team)

    def revoke():
        tokens.revoke(token, by=request.caller.actor)

    return carry_out(
        request, revoke, then=reverse("agents"), say=gettext("Token %(prefix)s… is revoked.") % {"prefix": token.prefix}
    )
