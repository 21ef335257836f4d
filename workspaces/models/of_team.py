"""Rows that belong to a team."""

from dashboard.database.row_locks import LockingQuerySet


class OfTeamQuerySet(LockingQuerySet):
    """Rows with a `team` column."""

    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)
