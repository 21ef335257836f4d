"""What a workspace's header says about it: forks, and whether the caller may change that."""

from dataclasses import dataclass
from functools import cached_property

from workspaces.models import Workspace

MAX_FORKS = 10  # the others are in the list


@dataclass
class About:
    """The metadata of one workspace, for one caller."""

    workspace: Workspace
    caller: object

    @cached_property
    def _newest_forks(self) -> list[Workspace]:
        forks = Workspace.objects.visible_to(self.caller).kept().filter(forked_from=self.workspace)
        return list(forks.select_related("team").order_by("-created_at")[: MAX_FORKS + 1])

    @property
    def forks(self) -> list[Workspace]:
        return self._newest_forks[:MAX_FORKS]

    @property
    def has_more_forks(self) -> bool:
        return len(self._newest_forks) > MAX_FORKS

    @property
    def may_change(self) -> bool:
        return not self.workspace.trashed_at and self.caller.can("describe_workspace", self.workspace.team_id)
