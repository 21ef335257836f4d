"""Pages that search everything for a value, and purge it. They never show the value that was typed."""

import json

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in
from workspaces import operations
from workspaces.models import Operation, PurgeReceipt
from workspaces.pages.secrets import PLAIN, NeverShown
from workspaces.services.scrub import asking, receipts
from workspaces.services.scrub.places import SNAPSHOT
from workspaces.services.scrub.search import STEPS

VALUE = NeverShown(attrs={**PLAIN, "class": "code-field", "rows": 3})


class SearchForm(forms.Form):
    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=False,
        help_text=gettext_lazy("Eight bytes or more: a token, a key, an address. It is stored nowhere."),
        widget=VALUE,
    )

    def __init__(self, data=None, *, teams):
        super().__init__(data)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug


class PurgeForm(forms.Form):
    value = forms.CharField(
        label=gettext_lazy("The value again"),
        strip=False,
        help_text=gettext_lazy("Enter the value of the search again: it was not stored."),
        widget=VALUE,
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=asking.MAX_REASON,
        help_text=gettext_lazy("For the receipt and the log, such as “npm token in a public log”."),
    )
    past_holds = forms.BooleanField(
        label=gettext_lazy("Delete the chosen snapshots even if they are on hold"), required=False
    )


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("purge", team)]


@sensitive_post_parameters("value")
@signed_in
@READ_OR_WRITE
def scrub(request):
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "purge", None)
    form = SearchForm(request.POST or None, teams=teams)
    if request.method == "POST" and form.is_valid():
        try:
            given = form.cleaned_data
            return redirect("scrub-found", asking.search(given["team"], given["value"], by=request.caller.actor).pk)
        except Problem as problem:
            form.add_error(None, problem.detail)
    context = {"nav": "environments", "form": form, "teams": [_shown(team) for team in teams]}
    return render(request, "workspaces/scrub.html", context)


def _shown(team) -> dict:
    return {"team": team, "searches": asking.of_team(team)[:10], "receipts": asking.receipts_of(team)[:50]}


@signed_in
@require_safe
def found(request, pk):
    return _page(request, _find(request, pk))


@sensitive_post_parameters("value")
@signed_in
@require_POST
def purge(request, pk):
    operation = _find(request, pk, asking.SEARCH)
    form = PurgeForm(request.POST)
    if form.is_valid():
        try:
            how = {name: form.cleaned_data[name] for name in ("value", "reason", "past_holds")}
            chosen = request.POST.getlist("snapshot")
            started = asking.purge(operation, **how, snapshots=chosen, by=request.caller.actor)
            return redirect("scrub-found", started.pk)
        except Problem as problem:
            form.add_error(None, problem.detail)
    return _page(request, operation, form)


@signed_in
@require_POST
def stop(request, pk):
    operation = _find(request, pk)
    return carry_out(request, lambda: asking.stop(operation), then=reverse("scrub-found", args=[pk]))


@signed_in
@require_safe
def receipt(request, pk):
    rows = PurgeReceipt.objects.visible_to(request.caller).select_related("team")
    row = get_object_or_404(rows, pk=pk)
    must(request.caller, "purge", row.team)
    return HttpResponse(
        json.dumps(receipts.as_download(row), ensure_ascii=False, indent=2),
        content_type="application/json; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="purge-{row.sha256[:12]}.json"'},
    )


def _find(request, pk, *kinds: str) -> Operation:
    rows = Operation.objects.filter(team__in=request.caller.team_ids, kind__in=kinds or (asking.SEARCH, asking.PURGE))
    operation = get_object_or_404(rows.select_related("team"), pk=pk)
    must(request.caller, "purge", operation.team)
    return operation


def _page(request, operation: Operation, form: PurgeForm | None = None):
    outcome = operation.outcome or {}
    places = outcome.get("places", [])
    snapshots = [place for place in places if place["kind"] == SNAPSHOT]
    context = {
        "nav": "environments",
        "operation": operation,
        "is_over": operations.is_over(operation),
        "is_search": operation.kind == asking.SEARCH,
        "step": STEPS.get(operation.progress.get("step", ""), ""),
        "groups": _groups(places),
        "snapshots": [place for place in snapshots if not place["why_kept"]],
        "chosen": request.POST.getlist("snapshot"),
        "not_listed": max(0, outcome.get("total", 0) - len(places)),
        "form": form or PurgeForm(),
    }
    if receipt_id := outcome.get("receipt"):
        context["receipt"] = PurgeReceipt.objects.filter(pk=receipt_id).first()
    return render(request, "workspaces/scrub_found.html", context)


def _groups(places: list[dict]) -> list[tuple[str, list[dict]]]:
    found: dict[str, list[dict]] = {}
    for place in places:
        found.setdefault(place["what"], []).append(place)
    return sorted(found.items())
