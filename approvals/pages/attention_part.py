"""What a card shows of whose turn it is: a snooze of one's own, and who was asked by name."""

from datetime import datetime
from functools import cached_property

from django.utils.translation import gettext, gettext_lazy

from approvals.actions import attention

MINUTES = {10: gettext_lazy("10 minutes"), 30: gettext_lazy("30 minutes"), 60: gettext_lazy("1 hour")}

PASSED_TO = {"lead": gettext_lazy("passed on to leads"), "admin": gettext_lazy("passed on to admins")}


class AttentionPart:
    """Mixed into Card: uses its `action`, `caller`, `now`, `is_open` and `may_answer`."""

    snooze_choices = tuple(MINUTES.items())

    @cached_property
    def snoozed_until(self) -> datetime | None:
        return attention.snoozed_until(self.action, self.caller.user, self.now)

    @cached_property
    def people_to_ask(self) -> list:
        """Those who can be asked by name; [] if nobody else could approve it."""
        people = attention.may_be_asked(self.action)
        return people if any(person.pk != self.caller.user.pk for person in people) else []

    @property
    def asked_of_words(self) -> str:
        """Who was asked by name to decide the open card, or to whom it was passed on; "" if to nobody."""
        action = self.action
        if not self.is_open:
            return ""
        if action.asked_of_id is None:
            return self._passed_on_words
        if action.asked_of_id == self.caller.user.pk:
            return gettext("asked of you by name")
        return gettext("asked of %(name)s by name") % {"name": action.asked_of}

    @property
    def _passed_on_words(self) -> str:
        if self.action.escalated_at is None:
            return ""
        to = self.action.escalates_to
        if to["group"]:
            return gettext("passed on to the group %(name)s") % {"name": to["group"]}
        return str(PASSED_TO[to["role"]])
