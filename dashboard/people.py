"""The Team and Agents pages: who is here, what they may do, and the tokens they hold."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, OuterRef, Q, Subquery
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import clock, invitations
from dashboard.invitations import AT_ONCE, LINK_VALID
from dashboard.invite import agent_of, token_for
from dashboard.models import Agent, Event, Membership, Role, SignInLink, Team, Token
from dashboard.pages import carry_out, must, signed_in
from dashboard.problems import conflict

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
        .order_by("team__name", "user__username")
    )
    teams: dict = {}
    for membership in memberships:
        teams.setdefault(membership.team, []).append(membership)
    context = {"nav": "team", "roles": list(Role), "at_once": AT_ONCE, **more}
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
    """A pasted list becomes people; their links are in this answer and nowhere else."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_people", found)
    text, role = request.POST.get("people", ""), request.POST.get("role", "")
    try:
        if role not in Role.values:
            raise ValidationError(f"A role is one of {', '.join(Role.values)}.")
        links, known = invitations.invite(found, text, role, by=request.caller.actor)
    except ValidationError as error:
        refused = {"team": found, "people": text, "role": role, "why": error.messages}
        return _team_page(request, refused=refused)
    return _show_links(request, found, links, known=known, role=Role(role).label)


def _show_links(request, found: Team, links, **more):
    context = {"nav": "team", "in_team": found, "links": links, "days": LINK_VALID.days, **more}
    response = render(request, "dashboard/ways_in.html", context)
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
        if role not in Role.values:
            raise conflict(f"A role is one of {', '.join(Role.values)}.")
        with transaction.atomic():
            _keep_one_admin(membership, role)
            Membership.objects.filter(pk=membership.pk).update(role=role)
            _record(request, membership.team, "person.role_changed", membership.user, was=membership.role, role=role)

    return carry_out(request, change, then=reverse("team"), say=f"{membership.user} is {role} now.")


@signed_in
@require_POST
def remove_person(request, pk):
    """Out of the team: open pages and tokens of this team end at their next look (30 seconds)."""
    membership = _membership(request, pk)

    def remove():
        with transaction.atomic():
            _keep_one_admin(membership, None)
            Token.objects.filter(team=membership.team, user=membership.user, revoked_at=None).update(
                revoked_at=clock.now()
            )
            if not membership.user.memberships.exclude(pk=membership.pk).exists():
                invitations.end_links(membership.user)
            Membership.objects.filter(pk=membership.pk).delete()
            verb = "person.removed" if membership.user.last_login else "person.invitation_withdrawn"
            _record(request, membership.team, verb, membership.user, role=membership.role)

    return carry_out(request, remove, then=reverse("team"), say=f"{membership.user} is no longer in the team.")


def _keep_one_admin(membership, role):
    """Read again under the team's lock: two admins who demote each other at once must not both succeed."""
    Team.objects.select_for_update().get(pk=membership.team_id)
    of_team = Membership.objects.filter(team=membership.team_id)
    membership.role = of_team.filter(pk=membership.pk).values_list("role", flat=True).first()
    if membership.role is None:
        raise conflict(f"{membership.user} is no longer in {membership.team}.")
    others = of_team.filter(role=Role.ADMIN, user__is_active=True).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and role != Role.ADMIN and not others.exists():
        raise conflict(f"{membership.user} is the only admin of {membership.team}; make somebody else one first.")


@signed_in
@require_POST
def new_link(request, pk):
    """Another one-time link, for somebody of this team alone who lost the first one."""
    membership = _membership(request, pk)
    if not invitations.may_be_linked(membership.user, membership.team):
        why = f"{membership.user} is in other teams too, or runs this installation"
        messages.error(request, f"{why}; only an operator makes a link then, with manage.py sign_in_url.")
        return redirect("team")
    with transaction.atomic():
        _record(request, membership.team, "person.link_made", membership.user)
        link = invitations.way_in(membership.user)
    return _show_links(request, membership.team, [link])


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
    tokens: dict = {}
    for token in Token.objects.live().visible_to(caller).filter(agent__in=[a.pk for a in found]).order_by("created_at"):
        tokens.setdefault(token.agent_id, []).append(token)
    return render(
        request,
        "dashboard/agents.html",
        {
            "nav": "agents",
            "agents": [(a, tokens.get(a.pk, []), caller.can("manage_agents", a.team_id)) for a in found],
            "teams": [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_agents", t)],
            "new_token": request.session.pop("new_token", None),
        },
    )


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
    """A paused agent's tokens open nothing, its hooks are denied."""
    agent = _agent(request, pk)

    def pause():
        with transaction.atomic():
            if not Agent.objects.filter(pk=agent.pk, paused_at=None).update(paused_at=clock.now()):
                raise conflict(f"{agent} is paused already.")
            _record(request, agent.team, "agent.paused", agent)

    return carry_out(request, pause, then=reverse("agents"), say=f"{agent} is paused: nothing it asks is allowed.")


@signed_in
@require_POST
def unpause_agent(request, pk):
    agent = _agent(request, pk)

    def unpause():
        with transaction.atomic():
            if not Agent.objects.filter(pk=agent.pk, paused_at__isnull=False).update(paused_at=None):
                raise conflict(f"{agent} is not paused.")
            _record(request, agent.team, "agent.unpaused", agent)

    return carry_out(request, unpause, then=reverse("agents"), say=f"{agent} may ask again.")


@signed_in
@require_POST
def revoke_token(request, pk):
    token = get_object_or_404(
        Token.objects.visible_to(request.caller).filter(agent__isnull=False).select_related("team", "agent"), pk=pk
    )
    must(request.caller, "manage_agents", token.team)

    def revoke():
        with transaction.atomic():
            if not Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
                raise conflict("This token was revoked before.")
            _record(request, token.team, "token.revoked", token, prefix=token.prefix, of=str(token.agent))

    return carry_out(request, revoke, then=reverse("agents"), say=f"{token.prefix}… opens nothing any more.")
