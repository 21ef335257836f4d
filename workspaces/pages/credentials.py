"""Pages that set, replace and delete credentials with a leash. They never show a value, nor its length."""

from django import forms
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, ask_first, carry_out, must, signed_in
from workspaces.egress import leash
from workspaces.models import Credential
from workspaces.pages.secrets import PLAIN, NeverShown
from workspaces.secrets import credentials

CODE = {**PLAIN, "class": "code-field"}


class CredentialForm(forms.Form):
    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    name = forms.CharField(label=gettext_lazy("Name"), max_length=80, widget=forms.TextInput(attrs=CODE))
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=True,
        help_text=gettext_lazy("Never shown again, and in no workspace."),
        widget=NeverShown(attrs={**CODE, "rows": 2}),
    )
    hosts = forms.CharField(
        label=gettext_lazy("Leash"),
        help_text=gettext_lazy(
            "One host on each line, with its methods and paths: api.github.com GET,POST /repos/acme/*. The host must be"
            " on the network list of the environment. Its TLS is opened. Any other use is asked for."
        ),
        widget=forms.Textarea(attrs={**CODE, "rows": 4}),
    )
    header = forms.CharField(
        label=gettext_lazy("Header"),
        max_length=200,
        initial="Authorization: Bearer {}",
        help_text=gettext_lazy("The header in which programs send it, with {} for the value."),
        widget=forms.TextInput(attrs=CODE),
    )
    variable = forms.CharField(
        label=gettext_lazy("Variable"),
        max_length=80,
        help_text=gettext_lazy("Programs find a stand-in of the same shape in it."),
        widget=forms.TextInput(attrs={**CODE, "placeholder": "GITHUB_TOKEN"}),
    )
    environments = forms.CharField(
        label=gettext_lazy("Environments"),
        help_text=gettext_lazy("Names with commas between them."),
        widget=forms.TextInput(attrs=PLAIN),
    )

    def __init__(self, data=None, *, teams, credential=None):
        super().__init__(data)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        if credential:
            del self.fields["team"], self.fields["name"]
            self.fields["value"].required = False
            self.fields["value"].label = gettext("New value")
            self.fields["value"].help_text = gettext("Leave empty to keep the current value. Never shown again.")
            self.initial |= {"header": credential.header, "variable": credential.variable}
            self.initial |= {"environments": ", ".join(credential.environments)}
            self.initial["hosts"] = "\n".join(leash.written(one) for one in credential.hosts)
        elif len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def wish(self) -> dict:
        """Return what `credentials.save` takes."""
        given = self.cleaned_data
        hosts = [leash.read_words(line) for line in given["hosts"].splitlines() if line.strip()]
        names = [name.strip() for name in given["environments"].split(",") if name.strip()]
        more = {"value": given["value"] or None, "hosts": hosts, "environments": names}
        return {"header": given["header"], "variable": given["variable"]} | more


def _teams(caller) -> list[Team]:
    return [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_secrets", team)]


def _must_have_teams(request) -> list[Team]:
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "manage_secrets", None)
    return teams


@signed_in
@require_safe
def index(request):
    rows = Credential.objects.filter(team__in=_must_have_teams(request)).select_related("team")
    found = [(row, [leash.written(one) for one in row.hosts]) for row in rows.order_by("name", "team__name")[:500]]
    return render(request, "workspaces/credentials.html", {"nav": "secrets", "credentials": found})


@sensitive_post_parameters("value")
@signed_in
@READ_OR_WRITE
def new(request):
    form = CredentialForm(request.POST or None, teams=_must_have_teams(request))
    return _saved(request, form) or _page(request, form)


@sensitive_post_parameters("value")
@signed_in
@READ_OR_WRITE
def credential(request, pk):
    found = _find(request, pk)
    form = CredentialForm(request.POST or None, teams=[found.team], credential=found)
    return _saved(request, form, found) or _page(request, form, found)


@signed_in
@READ_OR_WRITE
def delete(request, pk):
    """Ask before a credential is deleted; a POST deletes it."""
    found = _find(request, pk)
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the credential %(name)s?") % {"name": found.name},
            says=gettext("Its value is deleted for good and put into no request any more."),
            verb=gettext("Delete"),
            back=reverse("credential", args=[pk]),
        )
    return carry_out(
        request,
        lambda: credentials.delete(found, by=request.caller.actor),
        then=reverse("credentials"),
        say=gettext("%(name)s deleted. It is put into no request any more.") % {"name": found.name},
    )


def _find(request, pk) -> Credential:
    found = get_object_or_404(Credential.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "manage_secrets", found.team)
    return found


def _saved(request, form, found=None):
    """Save and return a redirect to the list; None if nothing was posted or the form has errors."""
    if request.method != "POST" or not form.is_valid():
        return None
    team = found.team if found else form.cleaned_data["team"]
    name = found.name if found else form.cleaned_data["name"]
    try:
        credentials.save(team, name, form.wish(), by=request.caller.actor)
    except Problem as problem:
        form.add_error(problem.extra["field"] if problem.extra.get("field") in form.fields else None, problem.detail)
        return None
    say = gettext("%(name)s is set. Workspaces without a credential use it from their next start on.") % {"name": name}
    return carry_out(request, lambda: None, then=reverse("credentials"), say=say)


def _page(request, form, found=None):
    return render(request, "workspaces/credential_edit.html", {"nav": "secrets", "form": form, "credential": found})
