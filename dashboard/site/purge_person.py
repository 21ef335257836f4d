"""The page that purges a person: the account and what belongs to it alone, with a receipt."""

from django import forms
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Membership
from dashboard.people.forms import AS_CODE
from dashboard.web.pages import READ_OR_WRITE, must, signed_in, take_form
from workspaces.services.scrub import people
from workspaces.services.scrub.asking import MAX_REASON


class PurgePersonForm(forms.Form):
    """The person's name, so that nobody purges somebody else by mistake, and a reason for the receipt."""

    name = forms.CharField(label=gettext_lazy("User name of the person"), widget=forms.TextInput(attrs=AS_CODE))
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON,
        help_text=gettext_lazy("Shown in the receipt and the log, which keep it: leave the person's name out."),
    )

    def __init__(self, data=None, *, user):
        super().__init__(data)
        self.user = user

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.user.username:
            raise forms.ValidationError(gettext("This isn't the user name of the person."))
        return self.cleaned_data["name"]


@signed_in
@READ_OR_WRITE
def purge_person(request, pk):
    """Say what a purge removes and what stays; a POST purges the person."""
    mine = Membership.objects.filter(team__in=request.caller.team_ids).select_related("team", "user")
    membership = get_object_or_404(mine, pk=pk)
    must(request.caller, "purge_person", membership.team)
    user = membership.user

    def shown(form):
        return render(request, "dashboard/purge_person.html", {"nav": "team", "person": user, "form": form})

    def purge(fields):
        people.refuse(user, request.all_teams)
        return people.purge(user, reason=fields["reason"], by=request.caller.actor)

    if request.method != "POST":
        return shown(PurgePersonForm(user=user))
    return take_form(
        request,
        PurgePersonForm(request.POST, user=user),
        purge,
        shown=shown,
        then=reverse("scrub"),
        otherwise=reverse("person-purge", args=[pk]),
        at="reason",
        say=gettext("The person is purged. The receipt is below."),
    )
