"""Pages that set, replace, expire and delete secrets. They never show a value, nor its length."""

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import Team
from dashboard.problems import Problem, invalid
from dashboard.web.pages import READ_OR_WRITE, as_uuid, ask_first, carry_out, must, signed_in
from workspaces import secrets
from workspaces.models import CodeHostKind, Scope, Secret
from workspaces.pages.header import find
from workspaces.provisioning.git import ssh_keys
from workspaces.secrets import origins
from workspaces.services import environments, secret_expiry, secret_uses

PLAIN = {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}


class NeverShown(forms.Textarea):
    """A text area that does not repeat the typed value when the form is shown again with errors."""

    def format_value(self, value):
        return ""


class SecretForm(forms.Form):
    team = forms.ModelChoiceField(None, label=gettext_lazy("Team"), to_field_name="slug", empty_label=None)
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        help_text=gettext_lazy(
            "Programs find it in the environment variable of this name. One for repositories is named after its"
            " host: CODE_HOST_GITHUB_COM for github.com."
        ),
        widget=forms.TextInput(attrs={**PLAIN, "class": "code-field", "placeholder": "NPM_TOKEN"}),
    )
    scope = forms.ChoiceField(
        label=gettext_lazy("Given to"),
        choices=[
            (Scope.SETUP.value, gettext_lazy("The setup script; agents never see it")),
            (Scope.AGENT.value, gettext_lazy("The agent, commands, terminals and services")),
            (Scope.CODE_HOST.value, gettext_lazy("Handrail, for repositories; no program of a workspace sees it")),
            (Scope.MODELS.value, gettext_lazy("Handrail, for models; no program of a workspace sees it")),
            (
                Scope.SIGNING.value,
                gettext_lazy("Handrail, for signatures of commits; no program of a workspace sees it"),
            ),
        ],
    )
    origin = forms.CharField(
        label=gettext_lazy("Code host"),
        required=False,
        max_length=300,
        help_text=gettext_lazy(
            "The only address that it is used at, to clone, fetch, push and open pull requests: https://github.com for"
            " a token, ssh://github.com for a deploy key."
        ),
        widget=forms.TextInput(attrs={**PLAIN, "class": "code-field"}),
    )
    code_host = forms.ChoiceField(
        label=gettext_lazy("API of the host"),
        required=False,
        choices=[("", gettext_lazy("Detect automatically")), *CodeHostKind.choices],
        help_text=gettext_lazy("For a token. Choose one if Handrail can't detect it."),
    )
    host_key = forms.CharField(
        label=gettext_lazy("Host key"),
        required=False,
        max_length=20_000,
        help_text=gettext_lazy(
            "For a deploy key: a line that ssh-keyscan github.com prints, compared with what the host publishes."
            " Handrail talks to no host that shows another key."
        ),
        widget=forms.Textarea(attrs={**PLAIN, "class": "code-field", "rows": 2}),
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        strip=False,
        help_text=gettext_lazy(
            "Never shown again. Snapshots and output are scanned for values of eight bytes or more. A deploy key is a"
            " private key in OpenSSH's format, without a passphrase."
        ),
        widget=NeverShown(attrs={**PLAIN, "class": "code-field", "rows": 3}),
    )
    expires_at = forms.DateTimeField(
        label=gettext_lazy("Expires"),
        required=False,
        help_text=gettext_lazy("In your time zone. After that it isn't given to programs."),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, data=None, *, teams, secret=None, initial=None):
        super().__init__(data, initial=initial)
        self.fields["team"].queryset = Team.objects.filter(pk__in=[team.pk for team in teams]).order_by("name")
        if secret:
            is_of_repositories = secret.scope == Scope.CODE_HOST
            for name in ("team", "name", "scope", *(() if is_of_repositories else ("origin", "code_host", "host_key"))):
                del self.fields[name]
            self.initial |= {name: getattr(secret, name) for name in ("origin", "code_host", "host_key")}
            self.fields["value"].required = False
            self.fields["value"].label = gettext("New value")
            self.fields["value"].help_text = gettext("Leave empty to keep the current value. Never shown again.")
            self.initial["expires_at"] = secret.expires_at
        elif len(teams) == 1:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0].slug

    def clean(self):
        given = super().clean()
        if given.get("scope") == Scope.CODE_HOST and not given.get("origin"):
            words = gettext("Give the address of the code host, such as https://github.com or ssh://github.com.")
            self.add_error("origin", words)
        return given


def _teams(caller) -> list[Team]:
    return [t for t in Team.objects.visible_to(caller).order_by("name") if caller.can("manage_secrets", t)]


@signed_in
@require_safe
def index(request):
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "manage_secrets", None)
    rows = Secret.objects.filter(team__in=teams).select_related("team").order_by("name", "scope", "team__name")[:500]
    found = [(secret, secrets.state(secret), secret_expiry.is_near(secret)) for secret in rows]
    may_purge = any(request.caller.can("purge", team) for team in teams)
    return render(request, "workspaces/secrets.html", {"nav": "secrets", "secrets": found, "may_purge": may_purge})


@sensitive_post_parameters("value")
@signed_in
@READ_OR_WRITE
def new(request):
    teams = _teams(request.caller)
    if not teams:
        must(request.caller, "manage_secrets", None)
    proposed = {name: request.GET[name][:300] for name in ("name", "scope", "origin") if name in request.GET}
    form = SecretForm(request.POST or None, teams=teams, initial=proposed)
    return _save(request, form) or _page(request, form)


@sensitive_post_parameters("value")
@signed_in
@READ_OR_WRITE
def secret(request, pk):
    found = _find(request, pk)
    form = SecretForm(request.POST or None, teams=[found.team], secret=found)
    return _save(request, form, found) or _page(request, form, found)


@signed_in
@READ_OR_WRITE
def delete(request, pk):
    """Ask before a secret is deleted; a POST deletes it."""
    found = _find(request, pk)
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the secret %(name)s?") % {"name": found.name},
            says=gettext("Its value is deleted for good and isn't given to new programs. Running programs keep it."),
            verb=gettext("Delete"),
            back=reverse("secret", args=[pk]),
        )
    return carry_out(
        request,
        lambda: secrets.delete(found, by=request.caller.actor),
        then=reverse("secrets"),
        say=gettext("%(name)s deleted. It is no longer given to programs.") % {"name": found.name},
    )


@signed_in
@require_POST
def keep(request, team, key):
    """Record the decision that snapshots of this workspace may contain these values."""
    workspace = find(request, team, key)
    must(request.caller, "manage_secrets", workspace.team_id)
    ids = [pk for text in request.POST.getlist("finding") if (pk := as_uuid(text))]
    if not ids:
        raise Http404("no finding is named")
    return carry_out(
        request,
        lambda: secrets.allow_findings(workspace, ids, by=request.caller.actor),
        then=reverse("workspace", args=[team, key]),
        say=lambda kept: (
            ngettext(
                "Allowed in %(n)s file. Take the snapshot again.",
                "Allowed in %(n)s files. Take the snapshot again.",
                len(kept),
            )
            % {"n": len(kept)}
        ),
    )


def _find(request, pk) -> Secret:
    found = get_object_or_404(Secret.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "manage_secrets", found.team)
    return found


def _save(request, form, found=None):
    """Save and return a redirect to the list; None if nothing was posted or the form has errors."""
    if request.method != "POST" or not form.is_valid():
        return None
    by, given = request.caller.actor, form.cleaned_data
    what = (found.team, found.name, found.scope) if found else (given["team"], given["name"], given["scope"])
    origin, host_key = given.get("origin", ""), given.get("host_key", "")
    try:
        origins.check_code_host(what[2], origin, given.get("code_host", ""))
        if found and not given["value"] and origins.check(found.scope, origin) != found.origin:
            raise invalid(gettext("Set the token or key again with its new address."), field="value")
        if given["value"] or not found:
            how = {"origin": origin, "host_key": host_key, "expires_at": given["expires_at"]}
            saved = secrets.save(*what, given["value"], **how, by=by, replace=found is not None)
            secrets.state_code_host(saved, given.get("code_host", ""), by=by)
            words = (
                gettext("%(name)s is replaced. New programs get it.")
                if found
                else gettext("%(name)s is set. New programs get it.")
            )
            say = words % {"name": what[1]}
        else:
            with transaction.atomic():  # all of it or nothing
                if host_key:
                    secrets.change_host_key(found, host_key, by=by)
                secrets.state_code_host(found, given.get("code_host", ""), by=by)
                secrets.change_expiry(found, given["expires_at"], by=by)
            say = gettext("%(name)s is saved. Its value is as before.") % {"name": what[1]}
    except Problem as problem:
        form.add_error(problem.extra["field"] if problem.extra.get("field") in form.fields else None, problem.detail)
        return None
    messages.success(request, say)
    return redirect("secrets")


def _page(request, form, found=None):
    context = {"nav": "secrets", "form": form, "secret": found}
    if found:
        newest = environments.newest([found.team_id])
        names = [e.name for e in newest if found.name in e.secrets.get(found.scope, [])]
        context |= {"used_by": sorted(names), "state": secrets.state(found)}
        context["expires_soon"] = secret_expiry.is_near(found)
        if found.public_key:
            context["fingerprint"] = ssh_keys.fingerprint(found.public_key)
            context["host_fingerprints"] = [ssh_keys.fingerprint(line) for line in found.host_key.splitlines()]
        context["allowed_signers"] = secret_uses.allowed_signers(found)
    return render(request, "workspaces/secret_edit.html", context)
