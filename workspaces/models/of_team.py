"""Rows that belong to a team."""

from django.db import models


class OfTeamQuerySet(models.QuerySet):
    """Rows with a `team` column."""

    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)
