"""Search in the conversations of agents."""

from django.db.models import Exists, OuterRef, Q

from approvals.models import AgentSession, Message
from dashboard.site.search_limits import Hit, Limits, Scan, newest
from dashboard.web.lookup import Order

MAX_LINE = 300  # characters of a message that are shown


def conversations(caller, words: list[str], limits: Limits) -> Scan:
    """Search messages, the newest first; of a long one its first 64 KiB."""
    mine = AgentSession.objects.visible_to(caller).filter(pk=OuterRef("session"))
    if limits.workspace:
        mine = mine.filter(workspace__key=limits.workspace)
    # By EXISTS: with a list of sessions a database sorts all their messages.
    everything = Message.objects.all()
    rows = everything.filter(Exists(mine), limits.times("at"), limits.of("session__agent", "by"))
    wanted = Q(*(Q(text__icontains=word) for word in words))
    scan = newest(rows.select_related("session__agent__owner"), wanted, Order("at"), limits, walked=everything)
    scan.hits = [_hit(message, words[0]) for message in scan.hits]
    return scan


def _hit(message: Message, word: str) -> Hit:
    begin = max(0, message.text.lower().find(word.lower()) - MAX_LINE // 2)
    line = message.text[begin : begin + MAX_LINE]
    return Hit(str(message.session), line, message.url, message.at, str(message.session.agent))
