"""Who else has a card open: each page says so every few seconds while it is on screen, and gets the others' names."""

from datetime import timedelta

from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from approvals.models import Action, CardViewer
from dashboard.database import clock
from dashboard.models import Membership
from dashboard.text.texts import and_last
from dashboard.web.pages import must, signed_in

LOOKS_FOR = timedelta(seconds=25)  # after a page's last word; static/js/presence.js says it every 10 seconds
MAX_NAMES = 3


@signed_in
@never_cache
@require_POST
def looking(request, pk):
    """Note that this person has the card open; JSON {words}: which other members do."""
    found = get_object_or_404(Action.objects.visible_to(request.caller), pk=pk)
    must(request.caller, "decide", found.team_id)
    now = clock.now()
    CardViewer.objects.update_or_create(action=found, user=request.user, defaults={"at": now})
    members = Membership.objects.filter(team=found.team_id, user__is_active=True).values("user")
    seen = CardViewer.objects.filter(action=found, at__gte=now - LOOKS_FOR, user__in=members)
    names = seen.exclude(user=request.user).order_by("user__username").values_list("user__username", flat=True)
    return JsonResponse({"words": who_looks(list(names))})


def who_looks(names: list[str]) -> str:
    """Return who is looking too: "ben is looking too"; "" if nobody is."""
    if not names:
        return ""
    more = [gettext("%(count)s more") % {"count": len(names) - MAX_NAMES}] if len(names) > MAX_NAMES else []
    joined = and_last([*names[:MAX_NAMES], *more])
    return ngettext("%(names)s is looking too", "%(names)s are looking too", len(names)) % {"names": joined}
