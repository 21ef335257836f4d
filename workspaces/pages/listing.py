"""The list of workspaces: its filters and orders as links, and the views that a person saved."""

from dataclasses import fields

from django import forms
from django.contrib.auth import get_user_model
from django.db.models import OuterRef
from django.http import QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Agent
from dashboard.problems import Problem
from dashboard.web.pages import Slice, carry_out, parameters, signed_in, take_form, without
from workspaces.models import Environment, SavedView, Workspace
from workspaces.pages.header import count_of, with_display_columns
from workspaces.programs.checks import checks_of, in_words
from workspaces.services import collisions, listing, saved_views

FIELDS = [field.name for field in fields(listing.Filters)]
MAX_CHOICES = 200
# What an active filter is called on its chip; {} is its value.
CHIPS = {
    "label": gettext_lazy("label {}"),
    "owner": gettext_lazy("owner {}"),
    "agent": gettext_lazy("agent {}"),
    "environment": gettext_lazy("environment {}"),
    "driver": gettext_lazy("driver {}"),
    "quiet": gettext_lazy("quiet for {} days or more"),
    "changed": gettext_lazy("changed since setup"),
    "fork_of": gettext_lazy("forks of {}"),
    "name": gettext_lazy("name contains {}"),
}


class ViewForm(forms.Form):
    """The name of a list that a person saves."""

    name = forms.CharField(
        label=gettext_lazy("Save this list as a view of yours"),
        max_length=SavedView._meta.get_field("name").max_length,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@signed_in
@require_safe
def workspaces(request):
    return _list(request)


def _list(request, form: ViewForm | None = None):
    caller = request.caller
    wanted, refused = listing.Filters(**_named(request)), ""
    kept = Workspace.objects.visible_to(caller).kept()
    try:
        shown = listing.chosen(kept, wanted)
    except Problem as problem:
        shown, refused = kept.none(), problem.detail
        shown = listing.chosen(shown, listing.Filters())
    page = _page(request, shown, wanted)
    return render(
        request,
        "workspaces/list.html",
        {
            "nav": "workspaces",
            "page": page,
            "refused": refused,
            "wanted": wanted,
            "total": shown.count(),
            "colliding": None if _query(request) else collisions.among(collisions.open_places(kept)),
            "may_rebase": any(caller.can("use_workspace", team_id) for team_id in caller.team_ids),
            "states": [(_link(request, state=name), words, name == wanted.state, None) for name, words, _ in STATES],
            "orders": [(_link(request, sort=name), words, name == wanted.sort, None) for name, words in ORDERS],
            "chips": _chips(request, wanted),
            "choices": _choices(caller),
            "views": saved_views.of(request.user, _query(request)),
            "query": _query(request),
            "form": form or ViewForm(auto_id="view-%s"),
            "trashed": Workspace.objects.visible_to(caller).in_trash().count(),
            "may_create": any(caller.can("create_workspace", team) for team in caller.team_ids),
        },
    )


STATES = listing.STATES
ORDERS = [(name, words) for name, (words, _) in listing.ORDERS.items()]


def _page(request, shown, wanted) -> Slice:
    """Find the page's rows first: what is displayed beside them is counted for these alone."""
    page = Slice(request, shown.only("pk", "created_at", "key"), by=wanted.order)
    forks = count_of(Workspace.objects.kept().filter(forked_from=OuterRef("pk")), by="forked_from")
    displayed = with_display_columns(Workspace.objects.all())
    found = displayed.annotate(forks_count=forks).in_bulk([row.pk for row in page])
    page.rows = [found[row.pk] for row in page if row.pk in found]
    checks = checks_of(*page)
    for workspace in page:
        workspace.checks_words, workspace.checks_tone = in_words(checks[workspace.pk])
    return page


def _named(request) -> dict[str, str]:
    """Return the filters and the order of the address, "" if absent."""
    return {name: request.GET.get(name, "").replace("\0", "\ufffd").strip() for name in FIELDS}


def _query(request) -> str:
    """Return the filters and order of this address as a query string, without what is empty."""
    query = QueryDict(mutable=True)
    query.update({name: value for name, value in _named(request).items() if value})
    return query.urlencode()


def _link(request, **changed: str) -> str:
    """Return this list with other values for some parameters, from its first page; an empty value leaves one out."""
    query = QueryDict(without(request, *changed), mutable=True)
    query.update({name: value for name, value in changed.items() if value})
    return f"?{query.urlencode()}"


def _chips(request, wanted) -> list[tuple[str, str]]:
    """Return (words, the list without it) of each active filter but the state, which has its own links."""
    named = {name: value for name, value in wanted.chosen.items() if name in CHIPS}
    return [(str(CHIPS[name]).replace("{}", value), _link(request, **{name: ""})) for name, value in named.items()]


def _choices(caller) -> dict[str, list[str]]:
    teams = caller.team_ids
    people = get_user_model().objects.filter(memberships__team__in=teams)
    environments = Environment.objects.filter(team__in=teams).order_by()
    found = {
        "owner": people.values_list("username", flat=True),
        "agent": Agent.objects.filter(team__in=teams).values_list("name", flat=True),
        "environment": environments.to_make_from().values_list("name", flat=True),
        "driver": environments.values_list("driver", flat=True),
    }
    return {name: sorted(rows.distinct()[:MAX_CHOICES]) for name, rows in found.items()}


@signed_in
@require_POST
def save_view(request):
    """Keep the filters and order of the form's `query` under a name, for this person alone."""
    query = _known(parameters(request, "query")["query"])

    def shown(form):
        request.GET = QueryDict(query)  # the list from which the form was sent
        return _list(request, form)

    return take_form(
        request,
        ViewForm(request.POST, auto_id="view-%s"),
        lambda fields: saved_views.save(request.user, fields["name"], query),
        shown=shown,
        then=lambda view: f"{reverse('workspaces')}?{view.query}",
        otherwise=reverse("workspaces") + (f"?{query}" if query else ""),
        at="name",
        say=gettext("View saved."),
    )


def _known(query: str) -> str:
    """Return the query string with the list's own parameters alone."""
    given, known = QueryDict(query), QueryDict(mutable=True)
    known.update({name: given[name] for name in FIELDS if given.get(name)})
    return known.urlencode()


@signed_in
@require_POST
def remove_view(request, pk):
    view = get_object_or_404(request.user.workspace_views, pk=pk)
    query = view.query
    view.delete()
    return carry_out(request, lambda: None, then=f"{reverse('workspaces')}?{query}", say=gettext("View removed."))
