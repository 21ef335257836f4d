"""The page that changes a workspace's description, owner, ticket and labels."""

from django import forms
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy

from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, must, signed_in
from workspaces.pages.header import load_header
from workspaces.services import metadata


class DetailsForm(forms.Form):
    description = forms.CharField(label=gettext_lazy("Description"), required=False, max_length=500)
    owner = forms.ChoiceField(
        label=gettext_lazy("Owner"),
        required=False,
        help_text=gettext_lazy("Whom others ask about this workspace."),
    )
    ticket = forms.CharField(
        label=gettext_lazy("Ticket"),
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )
    labels = forms.CharField(
        label=gettext_lazy("Labels"),
        required=False,
        help_text=gettext_lazy("One per line, as name: value."),
        widget=forms.Textarea(attrs={"class": "code-field", "rows": 4, "spellcheck": "false", "autocapitalize": "off"}),
    )

    def __init__(self, data=None, *, workspace):
        now = {
            "description": workspace.description,
            "owner": workspace.owner.username if workspace.owner else "",
            "ticket": workspace.ticket,
            "labels": "\n".join(f"{name}: {value}" for name, value in workspace.labels.items()),
        }
        super().__init__(data, initial=now)
        names = list(metadata.people_of(workspace.team_id).values_list("username", flat=True))
        if now["owner"] and now["owner"] not in names:
            names.append(now["owner"])  # left the team; the choice stays visible until somebody else is chosen
        self.fields["owner"].choices = [("", gettext_lazy("nobody")), *((name, name) for name in names)]
        if not workspace.team.ticket_url:
            self.fields["ticket"].help_text = gettext_lazy("Its id, such as PAY-41. A lead can set an address for it.")

    @property
    def wish(self) -> dict:
        """Return the fields that differ from what was shown, so that two people who edit different ones both win."""
        cleaned = {name: self.cleaned_data[name] for name in self.changed_data}
        if "labels" in cleaned:
            cleaned["labels"] = metadata.read_labels(cleaned["labels"])
        return cleaned


@signed_in
@READ_OR_WRITE
def details(request, team, key):
    head = load_header(request, team, key, "workspace-details")
    workspace = head.workspace
    must(request.caller, "describe_workspace", workspace.team_id)
    form = DetailsForm(request.POST or None, workspace=workspace)
    if request.method == "POST" and form.is_valid():
        try:
            metadata.change(workspace, form.wish, by=request.caller.actor)
        except Problem as problem:
            form.add_error(None, problem.detail)
        else:
            return redirect("workspace", team, key)
    return render(request, "workspaces/details.html", {"nav": "workspaces", "head": head, "form": form})
