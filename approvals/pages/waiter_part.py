"""Whether the program that asked still asks for the answer; a part of the card."""

from datetime import timedelta

from approvals.actions import polls


class WaiterPart:
    """Of a Card, which has `action`, `is_open` and `now`."""

    @property
    def last_asked(self):
        """When the program last asked for the answer, if it has stopped asking; else None."""
        silence = polls.silence(self.action.pk) if self.is_open else None
        if silence is None or silence < polls.GONE_AFTER:
            return None
        return self.now - timedelta(seconds=silence)
