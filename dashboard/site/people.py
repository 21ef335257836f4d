"""The Team and Agents pages: people, their roles and invitations, agents and their tokens."""

from allauth.account.decorators import reauthentication_required
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.models import Agent, Event, Membership, Role, SecondFactorFor, SignInLink, Team, Token
from dashboard.people import members, owner_approval, second_factor_rule, ticket_urls, token_list, tokens
from dashboard.people.forms import NewAgentForm, TicketsForm
from dashboard.people.provisioning import agent_of, managed_teams, token_for
from dashboard.problems import conflict
from dashboard.site import agent_list, invitations
from dashboard.site.invitations import LINK_VALID, MAX_INVITED
from dashboard.web.pages import carry_out, must, show_at, shown_once, signed_in, take_form

# Team ----------------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def team(request):
    return _team_page(request)


def _team_page(request, tickets: TicketsForm | None = None, **more):
    caller = request.caller
    links = SignInLink.objects.filter(user=OuterRef("user"), used_at=None, expires_at__gt=clock.now())
    of_person = Authenticator.objects.filter(user=OuterRef("user"))
    memberships = (
        Membership.objects.filter(team__in=caller.team_ids)
        .select_related("user", "team")
        .annotate(link_until=Subquery(links.order_by("-expires_at").values("expires_at")[:1]))
        .annotate(has_passkey=Exists(of_person.filter(type="webauthn")), has_app=Exists(of_person.filter(type="totp")))
        .order_by("team__name", "user__username")
    )
    teams: dict = {}
    for membership in memberships:
        teams.setdefault(membership.team, []).append(membership)
    context = {"nav": "team", "second_factor_for": SecondFactorFor, "roles": list(Role), "at_once": MAX_INVITED, **more}
    context["teams"] = [
        {
            "team": found,
            "people": [one for one in people if one.user.last_login],
            "invited": [one for one in people if not one.user.last_login],
            "may_manage": caller.can("manage_people", found),
            "may_set_ticket_url": caller.can("set_ticket_url", found),
            "tickets": tickets if tickets and tickets.team == found else TicketsForm(team=found),
        }
        for found, people in teams.items()
    ]
    context["manages_tokens"] = any(caller.can("manage_tokens", found) for found in teams)
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
        show_at(request, reverse("team"))
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
        second_factor_rule.require_passkeys(found, wanted, by=request.caller.actor)

    words = (
        gettext("Critical actions now take a passkey.")
        if wanted
        else gettext("Critical actions take a passkey of who has one.")
    )
    return carry_out(request, switch, then=reverse("team"), say=words)


@signed_in
@require_POST
@reauthentication_required(app="allauth.mfa")
def set_owner_approval(request):
    """Say whether the owner of an agent may approve what it asks."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_people", found)
    may = request.POST.get("approve") != "another"
    words = (
        gettext("Owners may approve what their own agents ask.")
        if may
        else gettext("Somebody else now approves what a person's own agent asks.")
    )

    def switch():
        owner_approval.change(found, may, by=request.caller.actor)

    return carry_out(request, switch, then=reverse("team"), say=words)


@signed_in
@require_POST
def set_ticket_url(request):
    """Set where the tickets of the team's workspaces are."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "set_ticket_url", found)
    return take_form(
        request,
        TicketsForm(request.POST, team=found),
        lambda fields: ticket_urls.change(found, fields["address"], by=request.caller.actor),
        shown=lambda form: _team_page(request, tickets=form),
        then=reverse("team"),
        at="address",
        say=gettext("Saved."),
    )


@signed_in
@require_POST
@reauthentication_required(app="allauth.mfa")
def require_second_factor(request):
    """Say whose sign-in takes a second factor in a team."""
    found = get_object_or_404(Team.objects.visible_to(request.caller), slug=request.POST.get("team", ""))
    must(request.caller, "manage_team", found)

    def change():
        second_factor_rule.change(found, request.POST.get("for", ""), by=request.caller.actor)

    return carry_out(request, change, then=reverse("team"), say=gettext("The rule is saved."))


# Agents --------------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def agents(request):
    return _agents_page(request)


def _agents_page(request, form: NewAgentForm | None = None):
    caller = request.caller
    new_token = shown_once(request, "new_token")
    managed = managed_teams(caller)
    context = {
        "nav": "agents",
        "agents": agent_list.rows(caller),
        "teams": managed,
        "form": form or NewAgentForm(teams=managed, auto_id="a-%s"),
        "new_token": new_token,
        "valid_for": token_list.VALID_FOR,
    }
    response = render(request, "dashboard/agents.html", context)
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
    form = NewAgentForm(request.POST, teams=managed_teams(request.caller), auto_id="a-%s")
    if not form.is_valid():
        show_at(request, reverse("agents"))
        return _agents_page(request, form)
    agent = agent_of(found, form.cleaned_data["name"])
    if agent.owner is None:
        Agent.objects.filter(pk=agent.pk, owner=None).update(owner=request.user)
    return _with_token(request, agent, lambda: form.cleaned_data["days"])


def _with_token(request, agent, expiry):
    """Create a token that ends when `expiry` says; it is shown once, on the next page."""

    def make():
        expires_at = expiry()
        plain = token_for(agent.team, by=request.caller.actor, agent=agent, expires_at=expires_at)
        request.session["new_token"] = {"agent": agent.name, "plain": plain}

    return carry_out(request, make, then=reverse("agents"))


@signed_in
@require_POST
def make_token(request, pk):
    return _with_token(request, _agent(request, pk), lambda: token_list.expiry_in(request.POST.get("days", "")))


@signed_in
@require_POST
def pause_agent(request, pk):
    """Pause an agent: its tokens are refused and its hooks denied."""
    agent = _agent(request, pk)

    def pause():
        with Team.objects.turn(agent.team_id):
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
        with Team.objects.turn(agent.team_id):
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
