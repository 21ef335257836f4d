"""The page of a team's groups of approvers: who is in each, for admins to change."""

from django import forms
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.evaluation import approver_groups
from approvals.models import ApproverGroup
from approvals.pages.policy.scope import scope_of
from dashboard.people import sole_approver
from dashboard.web.pages import carry_out, must, signed_in, take_form


class GroupForm(forms.Form):
    """The people of a group, and its name if it is new."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=40,
        help_text=gettext_lazy("Policies use it: a letter first, then letters, digits, - and _. Such as dba."),
        widget=forms.TextInput({"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}),
    )
    people = forms.MultipleChoiceField(label=gettext_lazy("People"), widget=forms.CheckboxSelectMultiple())

    def __init__(self, data, team, *, group: ApproverGroup | None = None):
        chosen = [person.get_username() for person in group.people.all()] if group else []
        super().__init__(data, initial={"people": chosen}, prefix=group and group.pk.hex)
        rows = sole_approver.approvers(team).select_related("user").order_by("user__username")
        able = [row.user.get_username() for row in rows]
        # Who may no longer approve is shown until somebody takes them out.
        self.fields["people"].choices = [(name, name) for name in dict.fromkeys([*able, *chosen])]
        if group:
            del self.fields["name"]


@signed_in
@require_safe
def listing(request):
    return _page(request, scope_of(request).team)


def _page(request, team, refused: GroupForm | None = None):
    may_manage = request.caller.can("manage_people", team)
    groups = list(approver_groups.of_team(team))
    context = {"nav": "team", "team": team, "may_manage": may_manage}
    context["groups"] = [(group, GroupForm(None, team, group=group) if may_manage else None) for group in groups]
    context["form"] = (refused or GroupForm(None, team)) if may_manage else None
    return render(request, "approvals/approver_groups.html", context)


@signed_in
@require_POST
def add(request):
    team = scope_of(request).team
    must(request.caller, "manage_people", team)
    return take_form(
        request,
        GroupForm(request.POST, team),
        lambda fields: approver_groups.make(team, fields["name"].strip(), fields["people"], caller=request.caller),
        shown=lambda form: _page(request, team, form),
        then=_address(team),
        at="name",
    )


@signed_in
@require_POST
def change(request, pk):
    group = _group(request, pk)
    people = request.POST.getlist(f"{group.pk.hex}-people")
    return carry_out(
        request,
        lambda: approver_groups.change(group, people, caller=request.caller),
        then=_address(group.team),
        say=gettext("The people of %(name)s are saved.") % {"name": group.name},
    )


@signed_in
@require_POST
def remove(request, pk):
    group = _group(request, pk)
    return carry_out(
        request,
        lambda: approver_groups.remove(group, caller=request.caller),
        then=_address(group.team),
        say=gettext("The group %(name)s is removed.") % {"name": group.name},
    )


def _address(team) -> str:
    return f"{reverse('approver-groups')}?team={team.slug}"


def _group(request, pk) -> ApproverGroup:
    found = get_object_or_404(ApproverGroup.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "manage_people", found.team)
    return found
