"""What a card says of undoing outside what its action does there: before the decision, and once it is over."""

from functools import cached_property

from django.urls import reverse

from approvals.actions import compensations
from approvals.actions.way_back_search import of
from approvals.models import Action, WayBack, WayBackState
from dashboard.text.labels import ACTION_STATES
from workspaces.services import taking_back


class WayBackPart:
    """The card has `action`, `caller` and `is_open`."""

    @cached_property
    def way_back(self) -> WayBack | None:
        return of(self.action)

    @property
    def is_way_back_sought(self) -> bool:
        return self.way_back is not None and self.way_back.state == WayBackState.LOOKING

    @property
    def way_back_words(self) -> str:
        """What the compensating call does, as the end of a sentence that begins with "it"; "" if there is none."""
        row = self.way_back
        if row is None or row.call is None:
            return ""
        return taking_back.words_of(row.steps) if row.steps else row.title

    @property
    def no_way_back(self) -> str:
        """Why there is no way back, or what it leaves out."""
        return self.way_back.why_not if self.way_back else ""

    @property
    def compensation(self) -> Action | None:
        """The newest action that was asked to take this one back."""
        return self.way_back.taken_by if self.way_back else None

    @property
    def compensation_state(self) -> str:
        return ACTION_STATES[self.compensation.status][0] if self.compensation else ""

    @property
    def compensate_address(self) -> str:
        """Where the button that takes it back leads; "" if this person has none."""
        may = self.caller.can("take_back", self.action.team_id) and compensations.is_offered(self.action)
        return reverse("action-compensate", args=[self.action.pk]) if may else ""
