"""A prepared queryset is compiled once, and returns for each set of values what the queryset would."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from django.db import connections
from django.db.models import CharField, Exists, OuterRef, UUIDField

from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Agent, Team, Token


def test_rows_are_those_of_the_values(team, other_team):
    by_slug = Prepared(lambda: Team.objects.filter(slug=Slot("slug", CharField())))
    assert [by_slug.rows(slug=each.slug) for each in (team, other_team)] == [[team], [other_team]]
    assert by_slug.rows(slug="' OR 1=1 --") == []


def test_related_rows_come_along(agent, django_assert_num_queries):
    by_id = Prepared(lambda: Agent.objects.select_related("team").filter(pk=Slot("pk", UUIDField())))
    with django_assert_num_queries(2):
        names = [found.team.name for pk in (agent.pk, agent.pk) for found in by_id.rows(pk=pk)]
    assert names == [agent.team.name] * 2


def test_values_of_a_subquery(agent, agent_token):
    def build():
        tokens = Token.objects.filter(agent=OuterRef("pk"), team=Slot("team", UUIDField()))
        return Agent.objects.filter(pk=Slot("pk", UUIDField())).annotate(has=Exists(tokens)).values_list("name", "has")

    prepared = Prepared(build)
    assert prepared.rows(pk=agent.pk, team=agent.team_id) == [(agent.name, True)]
    assert prepared.rows(pk=agent.pk, team=uuid4()) == [(agent.name, False)]


def test_threads_share_it(transactional_db):
    teams = [Team.objects.create(name=f"Team {n}", slug=f"team-{n}") for n in range(8)]
    by_slug = Prepared(lambda: Team.objects.filter(slug=Slot("slug", CharField())))

    def find(one: Team) -> list:
        try:
            return by_slug.rows(slug=one.slug)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(find, teams)) == [[each] for each in teams]
