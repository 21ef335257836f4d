"""The page of repositories that give tasks, and of whose the accounts at their hosts are."""

from django import forms
from django.conf import settings
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.agent_runs.code_host import accounts, repositories
from approvals.models import HostAccount, HostedRepository, HostKind
from approvals.models.code_hosts import MAX_ADDRESS, MAX_LOGIN, MAX_WORD
from approvals.pages.given_tasks import BY_HAND, MOST_ATTEMPTS
from approvals.pages.policy.scope import scope_of
from dashboard.models import Membership
from dashboard.web.pages import ask_first, carry_out, is_confirmed, must, signed_in, take_form
from workspaces.provisioning import agent_programs
from workspaces.services.environments import to_choose_from


class SourceForm(forms.Form):
    """A repository that gives tasks. `wish()` is what `repositories.save` takes."""

    address = forms.CharField(
        label=gettext_lazy("Repository"),
        max_length=MAX_ADDRESS,
        widget=forms.URLInput(),
        help_text="https://github.com/owner/name",
    )
    kind = forms.ChoiceField(label=gettext_lazy("Code host"), choices=HostKind.choices)
    environment = forms.ChoiceField(label=gettext_lazy("Environment"))
    label = forms.CharField(
        label=gettext_lazy("Label"),
        required=False,
        max_length=MAX_WORD,
        help_text=gettext_lazy("An issue with it becomes a task. Empty: only a mention starts one."),
    )
    mention = forms.CharField(
        label=gettext_lazy("Mention"),
        max_length=MAX_WORD,
        initial="@handrail",
        help_text=gettext_lazy("A comment's line that begins with it is for Handrail."),
    )
    attempt_1 = forms.ChoiceField(label=gettext_lazy("First attempt"))
    attempt_2 = forms.ChoiceField(label=gettext_lazy("Second attempt"), required=False)
    attempt_3 = forms.ChoiceField(label=gettext_lazy("Third attempt"), required=False)
    minutes = forms.IntegerField(
        label=gettext_lazy("Minutes of work of each agent"), required=False, min_value=1, max_value=100_000
    )

    def __init__(self, data, team):
        super().__init__(data)
        rows = to_choose_from([team])
        self.fields["environment"].choices = [(each.name, each.name) for each in rows]
        programs = [choice for choice in agent_programs.choices(rows) if choice[0]]
        choices = [*programs, (BY_HAND, gettext("By hand or over the API"))]
        self.fields["attempt_1"].choices = choices
        for number in range(2, MOST_ATTEMPTS + 1):
            self.fields[f"attempt_{number}"].choices = [("", gettext("None")), *choices]

    def wish(self) -> dict:
        given = self.cleaned_data
        chosen = [given[f"attempt_{number}"] for number in range(1, MOST_ATTEMPTS + 1)]
        wish = {name: given[name] for name in ("address", "kind", "environment", "label", "mention", "minutes")}
        return wish | {"attempts": [{"agent": "" if each == BY_HAND else each} for each in chosen if each]}


class AccountForm(forms.Form):
    person = forms.ChoiceField(label=gettext_lazy("Person"))
    host = forms.CharField(
        label=gettext_lazy("Code host"),
        max_length=MAX_ADDRESS,
        widget=forms.URLInput(),
        help_text="https://github.com",
    )
    login = forms.CharField(label=gettext_lazy("Account"), max_length=MAX_LOGIN)

    def __init__(self, data, team):
        super().__init__(data)
        rows = Membership.objects.in_force().filter(team=team, user__is_active=True).order_by("user__username")
        names = rows.values_list("user__username", flat=True)
        self.fields["person"].choices = [(name, name) for name in names]


@signed_in
@require_safe
def listing(request):
    return _page(request, scope_of(request).team)


def _page(request, team, *, source: SourceForm | None = None, account: AccountForm | None = None):
    caller = request.caller
    may_change, may_map = caller.can("start_agents", team), caller.can("manage_people", team)
    found = [(row, repositories.webhook_of(row) if may_change else None) for row in repositories.of_team(team)]
    context = {
        "nav": "tasks",
        "team": team,
        "repositories": found,
        "accounts": accounts.of_team(team),
        "may_change": may_change,
        "may_map": may_map,
        "here": settings.HANDRAIL_DESK_URL,
        "form": (source or SourceForm(None, team)) if may_change else None,
        "account_form": (account or AccountForm(None, team)) if may_map else None,
    }
    return render(request, "approvals/task_sources.html", context)


def _address(team) -> str:
    return f"{reverse('task-sources')}?team={team.slug}"


@signed_in
@require_POST
def add(request):
    team = scope_of(request).team
    must(request.caller, "start_agents", team)
    form = SourceForm(request.POST, team)
    return take_form(
        request,
        form,
        lambda fields: repositories.save(team, form.wish(), caller=request.caller),
        shown=lambda form: _page(request, team, source=form),
        then=_address(team),
        at="address",
        say=gettext("Saved. Enter the webhook at the host, or leave it: the repository is read every two minutes."),
        keeps=True,
    )


@signed_in
@require_POST
def renew(request, pk):
    row = _source(request, pk)
    return carry_out(
        request,
        lambda: repositories.renew_secret(row, caller=request.caller),
        then=_address(row.team),
        say=gettext("There is a new secret. Enter it at the host: webhooks with the old one are refused."),
    )


@signed_in
@require_POST
def remove(request, pk):
    row = _source(request, pk)
    if not is_confirmed(request):
        says = gettext("It gives no more tasks, and its webhooks are refused. Tasks that it gave go on.")
        words = {"title": gettext("Remove %(name)s?") % {"name": row}, "says": says, "verb": gettext("Remove")}
        return ask_first(request, **words, back=_address(row.team))
    return carry_out(
        request,
        lambda: repositories.remove(row, caller=request.caller),
        then=_address(row.team),
        say=gettext("Removed."),
    )


@signed_in
@require_POST
def add_account(request):
    team = scope_of(request).team
    must(request.caller, "manage_people", team)
    return take_form(
        request,
        AccountForm(request.POST, team),
        lambda fields: accounts.add(team, fields, caller=request.caller),
        shown=lambda form: _page(request, team, account=form),
        then=_address(team),
        at="login",
        keeps=True,
    )


@signed_in
@require_POST
def remove_account(request, pk):
    rows = HostAccount.objects.visible_to(request.caller).select_related("team", "user")
    row = get_object_or_404(rows, pk=pk)
    must(request.caller, "manage_people", row.team)
    return carry_out(
        request,
        lambda: accounts.remove(row, caller=request.caller),
        then=_address(row.team),
        say=gettext("Removed."),
    )


def _source(request, pk) -> HostedRepository:
    row = get_object_or_404(HostedRepository.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "start_agents", row.team)
    return row
