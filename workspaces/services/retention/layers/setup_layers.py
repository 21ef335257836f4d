"""What setups installed, and images that were built, when no workspace needs them any more."""

import math

from dashboard.models import Team
from workspaces.models import RetentionRule, Workspace
from workspaces.services.retention.layers.base import Layer, Terms

DAY_S = 86_400.0


class SetupLayers(Layer):
    """Layers and images are on a host and in no table. The runner there deletes them (`_images` of its daemon)."""

    name = "setup-layers"
    label = "Setup layers"
    covers = (
        "What setup installed outside of /workspace, and images built from a folder, once no workspace needs them; a "
        "new workspace has them made again. For what no workspace names any more the longest rule of all teams counts."
    )
    default = Terms(7)
    by_environment = False
    unit = "days after they were made"

    def due(self, scope):
        return []

    def delete(self, scope, items):
        """Do nothing: nothing is ever due here."""


def ages() -> tuple[float, dict[str, float]]:
    """Return (the longest rule, {name or digest of a layer or image: the rule of its team}), all in seconds."""
    own = dict(RetentionRule.objects.filter(layer=SetupLayers.name).values_list("team", "days"))
    of_team = {
        team: math.inf if (days := own.get(team, SetupLayers.default.days)) is None else days * DAY_S
        for team in Team.objects.values_list("pk", flat=True)
    }
    found: dict[str, float] = {}
    for team, base in Workspace.objects.values_list("team", "base"):  # also of those that were deleted
        for name in (base.get(part) for part in ("layer", "layer_digest", "digest")):
            if name:
                found[name] = max(found.get(name, 0.0), of_team[team])
    return max(of_team.values(), default=SetupLayers.default.days * DAY_S), found
