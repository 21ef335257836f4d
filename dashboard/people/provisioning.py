"""Get or create teams, agents, people and tokens by name."""

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Agent, Event, Membership, Role, Team, Token
from dashboard.people import sole_approver
from dashboard.people.tokens import make_token, sha256


def team_by_slug(slug: str) -> Team:
    """Return the team, created if missing. Raise ValidationError for an invalid slug."""
    team = Team.objects.filter(slug=slug).first()
    if team:
        return team
    team = Team(slug=slug, name=slug.replace("-", " ").capitalize())
    _validate(team, "a team", slug)
    return Team.objects.get_or_create(slug=slug, defaults={"name": team.name})[0]


def managed_teams(caller) -> list[Team]:
    """Return the teams whose agents the caller may make and change, by name."""
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_agents", team)]


def agent_of(team: Team, name: str) -> Agent:
    """Return the team's agent, created if missing. Raise ValidationError for an empty or too long name."""
    name = name.strip()
    _validate(Agent(team=team, name=name), "an agent", name)
    return Agent.objects.get_or_create(team=team, name=name)[0]


@transaction.atomic
def person_in(team: Team, name: str, role: str | None):
    """Return the person with the role in the team; with role None only an existing member. Raise ValidationError."""
    Team.objects.take_turn(team.pk)
    people = get_user_model().objects
    user = people.filter(username=name).first()
    known = user and Membership.objects.filter(team=team, user=user).first()
    if role is None:
        if known:
            return user
        raise ValidationError(f"{name} is new to the team {team.slug}, so a role is needed: {', '.join(Role.values)}.")
    if user is None:
        user = get_user_model()(username=name)
        user.set_unusable_password()
        _validate(user, "a user", name)
        user.save()
    elif not user.is_active:
        raise ValidationError(f"The account of {name} is closed.")
    Membership.objects.update_or_create(team=team, user=user, defaults={"role": role, "confirmed_at": None})
    sole_approver.close(team)
    return user


@transaction.atomic
def token_for(
    team: Team, *, by: str | Actor, agent: Agent | None = None, user=None, workspace=None, expires_at=None
) -> str:
    """Create a token and record its event; the return value is the only copy. `by` may name a command."""
    plain = make_token(team, agent=agent, user=user, workspace=workspace, expires_at=expires_at)
    token = Token.objects.get(sha256=sha256(plain))
    Event.objects.record(
        team,
        actor=by if isinstance(by, Actor) else Actor.system(by),
        verb="token.created",
        subject=token,
        data={"prefix": token.prefix, "of": str(agent or user), "type": "agent" if agent else "person"}
        | ({"expires_at": expires_at.isoformat(timespec="seconds")} if expires_at else {}),
    )
    return plain


def revoke(tokens, *, by: Actor) -> int:
    """Revoke the live tokens of a queryset, each with its event; return how many there were."""
    revoked = 0
    for token in tokens.filter(revoked_at=None).select_related("team", "agent", "user"):
        with Team.objects.turn(token.team_id):
            if Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
                data = {"prefix": token.prefix, "of": str(token.agent or token.user)}
                Event.objects.record(token.team, actor=by, verb="token.revoked", subject=token, data=data)
                revoked += 1
    return revoked


def _validate(instance, what: str, name: str):
    try:
        instance.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as refused:
        raise ValidationError(f"{name!r} is no name for {what}: {' '.join(refused.messages)}") from None
