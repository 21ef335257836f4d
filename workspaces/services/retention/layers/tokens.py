"""Tokens: those that no longer work are deleted, and unused ones are revoked."""

from contextlib import suppress

from django.db.models import Q
from django.db.models.functions import Coalesce

from dashboard.models import Token
from dashboard.people import tokens
from dashboard.problems import Problem
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Item, Layer, Terms


class EndedTokens(Layer):
    name = "tokens"
    label = "Tokens that no longer work"
    covers = "The rows of expired and revoked tokens. The log keeps who used them, and how they ended."
    default = Terms(90)
    by_environment = False
    unit = "days after they ended"

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        if cutoff is None:
            return
        ended = Token.objects.filter(Q(revoked_at__lt=cutoff) | Q(expires_at__lt=cutoff), team=scope.team)
        for token in ended:
            ended_at = min(time for time in (token.revoked_at, token.expires_at) if time)
            yield Item(token.pk, f"token {token.prefix}…", ended_at, token.workspace_id)

    def delete(self, scope, items):
        Token.objects.filter(pk__in=[item.pk for item in items]).delete()


class UnusedTokens(Layer):
    name = "unused-tokens"
    label = "Unused tokens"
    covers = "Revoked for good. Tokens of runs end with their run and are left out."
    default = Terms(None)
    by_environment = False
    unit = "days without use"

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        if cutoff is None:
            return
        live = Token.objects.filter(team=scope.team, revoked_at=None, for_run=False)
        live = live.filter(Q(expires_at=None) | Q(expires_at__gt=scope.at))
        for token in live.annotate(used=Coalesce("last_used_at", "created_at")).filter(used__lt=cutoff):
            yield Item(token.pk, f"token {token.prefix}…", token.used, token.workspace_id)

    def delete(self, scope, items):
        for token in Token.objects.filter(pk__in=[item.pk for item in items]).select_related("team", "agent", "user"):
            with suppress(Problem):  # revoked meanwhile
                tokens.revoke(token, by=SWEEPER)
