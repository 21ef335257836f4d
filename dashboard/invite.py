"""Teams, agents, people and tokens made by name: what is there is found, what is missing is made."""

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from dashboard.models import Actor, Agent, Event, Membership, Role, Team, Token
from dashboard.tokens import make_token, sha256


def team_by_slug(slug: str) -> Team:
    """Raises ValidationError for what is no slug."""
    team = Team.objects.filter(slug=slug).first()
    if team:
        return team
    team = Team(slug=slug, name=slug.replace("-", " ").capitalize())
    _validate(team, "a team", slug)
    return Team.objects.get_or_create(slug=slug, defaults={"name": team.name})[0]


def agent_of(team: Team, name: str) -> Agent:
    """Raises ValidationError for an empty name, and for one too long."""
    name = name.strip()
    _validate(Agent(team=team, name=name), "an agent", name)
    return Agent.objects.get_or_create(team=team, name=name)[0]


@transaction.atomic
def person_in(team: Team, name: str, role: str | None):
    """The person with the role in the team; without a role, one who has one there already. Raises ValidationError."""
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
    Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    return user


@transaction.atomic
def token_for(team: Team, *, by: str, agent: Agent | None = None, user=None) -> str:
    """A new token, with its event; the return value is the only time it is seen. `by` names the command or page."""
    plain = make_token(team, agent=agent, user=user)
    token = Token.objects.get(sha256=sha256(plain))
    Event.objects.record(
        team,
        actor=Actor.system(by),
        verb="token.created",
        subject=token,
        data={"prefix": token.prefix, "of": str(agent or user), "type": "agent" if agent else "person"},
    )
    return plain


def _validate(instance, what: str, name: str):
    try:
        instance.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as refused:
        raise ValidationError(f"{name!r} is no name for {what}: {' '.join(refused.messages)}") from None
