"""Layers of retention for what people and agents wrote, and for what is only counted (see workspaces' layers)."""

from django.db.models import Q

from approvals.models import (
    Action,
    ActionMessage,
    AgentMessage,
    AgentSession,
    CardViewer,
    HostDelivery,
    ModelCall,
    ModelUsage,
    SessionPrompt,
    Status,
)
from workspaces.models import EgressDay
from workspaces.services.retention.layers.base import Item, Layer, Terms

LIVE = [Status.PENDING, Status.APPROVED, Status.RUNNING]


class _OfTeam(Layer):
    """Rows of some models, each with the time that counts. `sources()` yields (queryset, column, name of a row)."""

    by_environment = False

    def sources(self, scope, cutoff):
        raise NotImplementedError

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        if cutoff is not None:
            for rows, column, name in self.sources(scope, cutoff):
                for pk, at in rows.order_by(column).values_list("pk", column):
                    yield Item(pk, name, at, group=(rows.model,))

    def delete(self, scope, items):
        for model in {item.group[0] for item in items}:
            model.objects.filter(pk__in=[item.pk for item in items if item.group[0] is model]).delete()


class Messages(_OfTeam):
    name = "messages"
    label = "Messages"
    covers = (
        "What people wrote to agents, and questions and answers about actions that are over. Denials and their "
        "comments stay with their decisions."
    )
    default = Terms(365)

    def sources(self, scope, cutoff):
        about = ActionMessage.objects.filter(action__team=scope.team, at__lt=cutoff)
        yield about.exclude(action__status__in=LIVE), "at", "message about an action"
        yield AgentMessage.objects.filter(agent__team=scope.team, at__lt=cutoff), "at", "message to an agent"


class Prompts(_OfTeam):
    name = "prompts"
    label = "Prompts of sessions"
    covers = (
        "What people asked agents, as their sessions say it beside their cards. Of one session the newest 20 are kept."
    )
    default = Terms(30)

    def sources(self, scope, cutoff):
        yield SessionPrompt.objects.filter(agent__team=scope.team, at__lt=cutoff), "at", "prompt of a session"


class Conversations(_OfTeam):
    name = "conversations"
    label = "Conversations"
    covers = (
        "Prompts, answers and tool calls of agents' sessions. A session is deleted as a whole, counted from its last "
        "message. Actions and their decisions stay."
    )
    default = Terms(None)

    def sources(self, scope, cutoff):
        yield AgentSession.objects.filter(team=scope.team, last_at__lt=cutoff), "last_at", "session of an agent"


class CardViewers(_OfTeam):
    name = "card-viewers"
    label = "Who had a card open"
    covers = "Shown to others for half a minute, and needed no longer."
    default = Terms(1)

    def sources(self, scope, cutoff):
        yield CardViewer.objects.filter(action__team=scope.team, at__lt=cutoff), "at", "a person at a card"


class HostDeliveries(_OfTeam):
    name = "host-deliveries"
    label = "Webhooks of code hosts"
    covers = "The id and the hash of each that came, so that one that comes again does nothing."
    default = Terms(30)

    def sources(self, scope, cutoff):
        rows = HostDelivery.objects.filter(repository__team=scope.team, at__lt=cutoff)
        yield rows, "at", "webhook of a code host"


class Usage(_OfTeam):
    name = "usage"
    label = "Usage by day and call"
    covers = (
        "Tokens of models, also of started agents, and bytes over the network, which the measures add up. Those of "
        "this month always stay."
    )
    default = Terms(730)

    def sources(self, scope, cutoff):
        # The limits of a team count its month.
        cutoff = min(cutoff, scope.at.replace(day=1, hour=0, minute=0, second=0, microsecond=0))
        yield ModelUsage.objects.filter(action__team=scope.team, at__lt=cutoff), "at", "tokens of a call"
        yield ModelCall.objects.filter(run__team=scope.team, at__lt=cutoff), "at", "tokens of a started agent"
        days = EgressDay.objects.filter(workspace__team=scope.team, day__lt=cutoff.date())
        yield days, "day", "bytes of a day"


LAYERS = [Messages(), Prompts(), Conversations(), CardViewers(), HostDeliveries(), Usage()]


def snapshots_compared(team) -> set:
    """Return the snapshots that cards compare with: those from when an action was asked that is not used yet.

    An action that runs is no longer one: its card compares with the snapshot before it.
    """
    unused = Q(status=Status.PENDING) | Q(status=Status.APPROVED, consumed_at=None)
    waiting = Action.objects.filter(unused, team=team, asked_snapshot__isnull=False)
    return set(waiting.values_list("asked_snapshot", flat=True))
