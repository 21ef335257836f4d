"""Named groups of a team's people, which a policy can ask for an approval of one of."""

import uuid

from django.conf import settings
from django.db import models

from dashboard.models import Team
from workspaces.models import OfTeamQuerySet


class ApproverGroup(models.Model):
    """Some people of a team under a name that policies use."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="approver_groups")
    name = models.CharField(max_length=40)
    people = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="+")

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="approver_group_once")]

    def __str__(self):
        return self.name
