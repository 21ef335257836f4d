"""One call while the desk decides on it: it goes on once, or not at all, and can be withdrawn until then."""

import threading
from collections.abc import Callable
from typing import Any

from handrail_client.actions import Action
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError, NotAllowed

TELLS_EVERY = 5.0  # seconds between two notes to a client that it still waits
TOLD_WITHIN = 30.0  # seconds for the desk to hear of a withdrawal at the end
NOT_ASKED = "Handrail could not be asked, so this call was not made. {}"
CHANGED = "The server changed what it says of this tool while the call waited, so it was not made. Call it again."
# What asking can raise beside the client's own errors: arguments that are no JSON, or nested too deep.
ODD = (ValueError, TypeError, OSError, RecursionError)


class HeldCall:
    """A call that the desk is asked about. `withdraw` may come from another thread at any time."""

    def __init__(self, desk: Handrail, tool: str, arguments: dict[str, Any], **more):
        self._desk, self._tool, self._arguments, self._more = desk, tool, arguments, more
        self._lock = threading.Lock()
        self._action: Action | None = None
        self._withdrawn = self._passed = False

    def settle(
        self,
        go: Callable[[Action], None],
        tell: Callable[[Action], None] = lambda action: None,
        still: Callable[[], bool] = lambda: True,
    ) -> str | None:
        """Call `go` with the action whose approval was used, or return the words why not; None once it was withdrawn.

        `tell` is called again and again while it waits; `still` says before the use whether the tool is the same.
        A withdrawal comes either before `go` or after its end.
        """
        try:
            used = self._used(tell, still)
        except NotAllowed as no:
            used = str(no)
        except (HandrailError, *ODD) as error:
            used = NOT_ASKED.format(error)
        with self._lock:
            if not self._withdrawn:
                if not isinstance(used, Action):
                    return used
                self._passed = True
                go(used)
                return None
        if isinstance(used, Action):
            self._desk.report_quietly(used, False, "The client withdrew the call before it was made.")
        return None

    def _used(self, tell, still) -> Action | str | None:
        if self._withdrawn:
            return None
        action = self._desk.ask(self._tool, self._arguments, **self._more)
        with self._lock:
            self._action = action
            withdrawn = self._withdrawn
        if withdrawn:
            self._cancel(action)
            return None
        while action.status == "pending" and not self._withdrawn:
            tell(action)
            action = self._desk.wait(action, timeout=TELLS_EVERY)
        if self._withdrawn:
            return None
        if not still():
            self._cancel(action)
            return CHANGED
        return self._desk.use(action)

    def withdraw(self, *, wait: bool = False) -> bool:
        """Take the question back; False if the call has gone on already. `wait`: until the desk knows, or cannot."""
        with self._lock:
            if self._passed:
                return False
            self._withdrawn = True
            action = self._action
        if action is not None:
            # Beside, as the desk may be slow or away: the call does not go on, whatever becomes of this.
            telling = threading.Thread(target=self._cancel, args=(action,), daemon=True)
            telling.start()
            if wait:
                telling.join(TOLD_WITHIN)
        return True

    def _cancel(self, action: Action):
        try:
            self._desk.cancel(action)
        except HandrailError:
            pass  # decided meanwhile, or no desk: nothing is made of it here


class Continued(HeldCall):
    """The next round of a call whose approval was used: the tool asked its user something, who answered."""

    def __init__(self, desk: Handrail, used: Action, keep: Callable[[], None]):
        super().__init__(desk, used.tool, used.arguments)
        self._approved, self._keep = used, keep

    def _used(self, tell, still) -> Action | str | None:
        """Return the action if the desk lets its call go on. `keep` puts the round back where the desk can't say."""
        if not still():
            self._desk.report_quietly(self._approved, False, CHANGED)
            return CHANGED
        try:
            self._desk.go_on(self._approved)
        except NotAllowed as no:
            self._desk.report_quietly(self._approved, False, str(no))  # changes nothing where it has ended
            raise
        except HandrailError:
            self._keep()
            raise
        return self._approved
