"""Views of the workspaces list that people saved: a name for filters and an order, for one person."""

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils.translation import gettext

from dashboard.database.row_locks import locked
from dashboard.problems import conflict, invalid
from workspaces.models import SavedView

MAX_VIEWS = 30


def of(user, query: str) -> list[tuple[SavedView, bool]]:
    """Return (view, whether it is the list with this query) of the person's views by name."""
    return [(view, view.query == query) for view in user.workspace_views.order_by("name")[:MAX_VIEWS]]


@transaction.atomic
def save(user, name: str, query: str) -> SavedView:
    """Save or replace the person's view of this name. Problem 422 for no name or no filter, 409 for too many."""
    name = " ".join(name.split())
    if not name or len(name) > 60:
        raise invalid(gettext("Give the view a name of at most 60 characters."))
    if not query or len(query) > 1000:
        raise invalid(gettext("Choose a filter or an order first."))
    locked(get_user_model().objects.all()).get(pk=user.pk)
    others = user.workspace_views.exclude(name=name)
    if others.count() >= MAX_VIEWS:
        raise conflict(gettext("You have %(most)s views. Remove one first.") % {"most": MAX_VIEWS})
    return SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})[0]
