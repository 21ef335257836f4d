"""Pages of definitions of agents: the list, one version compared with the one before, edit, import, export."""

import json

from django import forms
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from approvals.agent_runs import definitions
from approvals.agent_runs.definitions import content, versions
from approvals.agent_runs.definitions.letta import SUFFIX
from approvals.models import AgentDefinition
from dashboard.models import Team
from dashboard.problems import Problem, invalid
from dashboard.web.pages import READ_OR_WRITE, Slice, download, must, parameters, signed_in, take_form
from workspaces.pages.forms import CODE

SUFFIXES = {versions.OWN: ".json", versions.letta.NAME: SUFFIX, versions.agent_spec.NAME: ".agentspec.json"}


class DefinitionForm(forms.Form):
    """The whole content as JSON: what Handrail shows and exports."""

    content = forms.CharField(
        label=gettext_lazy("Content"),
        max_length=content.MAX_BYTES,
        strip=False,
        widget=forms.Textarea(attrs=CODE | {"rows": 24}),
    )
    comment = forms.CharField(label=gettext_lazy("What this version changes"), max_length=300, required=False)
    base = forms.IntegerField(widget=forms.HiddenInput())

    def parsed(self) -> dict:
        try:
            found = json.loads(self.cleaned_data["content"])
        except (ValueError, RecursionError) as error:
            raise invalid(f"The content is not JSON: {error}.", field="content") from None
        if not isinstance(found, dict):
            raise invalid("The content is a JSON object.", field="content")
        return found


class ImportForm(forms.Form):
    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    document = forms.CharField(
        label=gettext_lazy("Document"),
        max_length=content.MAX_BYTES,
        strip=False,
        widget=forms.Textarea(attrs=CODE | {"rows": 16}),
        help_text=gettext_lazy(
            "The text of an agent file (.af), of Agent Spec, or of a definition that Handrail exported. The values of "
            "secrets are emptied before anything is kept; the source code of tools is never run."
        ),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        required=False,
        help_text=gettext_lazy("Empty: the document's own. A name that is taken gets a new version."),
    )
    agent = forms.CharField(
        label=gettext_lazy("Agent"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("The name or id of one, if an agent file holds several."),
    )

    def __init__(self, data=None, *, teams: list[Team]):
        super().__init__(data)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        if len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller) if caller.can("write_definitions", team)]


def _find(request, name: str) -> AgentDefinition:
    version = parameters(request, "version")["version"]
    number = int(version) if version.isdecimal() and len(version) < 9 else None
    try:
        return definitions.find(request.caller, name, number)
    except Problem as problem:
        raise Http404(problem.detail) from None


@signed_in
@require_safe
def index(request):
    page = Slice(request, definitions.newest(request.caller))
    context = {"nav": "agent-runs", "page": page, "may_write": bool(_teams(request.caller))}
    return render(request, "approvals/agent_definitions.html", context)


@signed_in
@require_safe
def definition(request, name):
    """Show a version, and what it changed."""
    found = _find(request, name)
    rows = AgentDefinition.objects.filter(team=found.team_id, name=found.name).select_related("by")
    before = rows.filter(version__lt=found.version).order_by("-version").first()
    context = {
        "nav": "agent-runs",
        "definition": found,
        "changes": definitions.compare(before, found) if before else [],
        "before": before,
        "variables": "\n".join(f"{key}={value}" for key, value in found.content["variables"].items()),
        "settings": json.dumps(found.content["model"]["settings"], ensure_ascii=False),
        "versions": rows.order_by("-version")[:50],
        "formats": list(SUFFIXES),
        "may_write": request.caller.can("write_definitions", found.team_id),
        "may_start": request.caller.can("start_agents", found.team_id),
    }
    return render(request, "approvals/agent_definition.html", context)


@signed_in
@READ_OR_WRITE
def edit(request, name):
    found = _find(request, name)
    must(request.caller, "write_definitions", found.team_id)
    start = {"content": versions.shown(found.content), "base": found.version}
    form = DefinitionForm(request.POST or None, initial=start)
    if request.method != "POST":
        return _edit_page(request, form, found)
    return take_form(
        request,
        form,
        lambda cleaned: definitions.save(
            found.team,
            found.name,
            form.parsed(),
            caller=request.caller,
            comment=cleaned["comment"],
            base=cleaned["base"],
        ),
        shown=lambda form: _edit_page(request, form, found),
        then=lambda made: reverse("agent-definition", args=[made.name]),
        at="content",
        otherwise=request.path,
    )


def _edit_page(request, form, found):
    context = {"nav": "agent-runs", "form": form, "definition": found}
    return render(request, "approvals/agent_definition_edit.html", context)


@signed_in
@READ_OR_WRITE
def take_in(request):
    """Import a document."""
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "write_definitions", None)
    form = ImportForm(request.POST or None, teams=teams)
    if request.method != "POST":
        return _import_page(request, form)
    return take_form(
        request,
        form,
        lambda cleaned: definitions.import_document(
            cleaned["team"],
            cleaned["document"].encode(),
            caller=request.caller,
            name=cleaned["name"],
            agent=cleaned["agent"],
        ),
        shown=lambda form: _import_page(request, form),
        then=lambda made: reverse("agent-definition", args=[made.name]),
        at="document",
        otherwise=request.path,
    )


def _import_page(request, form):
    return render(request, "approvals/agent_definition_import.html", {"nav": "agent-runs", "form": form})


@signed_in
@require_safe
def export(request, name, form):
    """Download a version as a document."""
    found = _find(request, name)
    if form not in SUFFIXES:
        raise Http404("no such format")
    text = json.dumps(definitions.export(found, form), indent=2, ensure_ascii=False) + "\n"
    return download(request, iter([text.encode()]), f"{found.name}{SUFFIXES[form]}", "application/json")
