"""Hand a workspace over, and the page of a hand-over: snapshot, manifest, notes and open questions behind one link."""

from django import forms
from django.http import Http404
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, must, signed_in
from workspaces.pages.header import load_header
from workspaces.services.notes import hand_over as handing
from workspaces.services.notes import versions

MAX_LISTED = 20


class HandOverForm(forms.Form):
    to = forms.ChoiceField(
        label=gettext_lazy("To"),
        help_text=gettext_lazy("An agent is bound to the workspace; a person is notified."),
    )
    message = forms.CharField(
        label=gettext_lazy("Message"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=gettext_lazy("The next steps, and decisions that were made."),
    )

    def __init__(self, data=None, *, workspace):
        super().__init__(data)
        kinds = {"agent": gettext("agent"), "person": gettext("person")}
        listed = handing.recipients(workspace)
        self.fields["to"].choices = [(f"{kind}:{name}", f"{name} ({kinds[kind]})") for kind, name in listed]

    @property
    def wish(self) -> dict:
        kind, _, name = self.cleaned_data["to"].partition(":")
        return {kind: name, "message": self.cleaned_data["message"]}


@signed_in
@READ_OR_WRITE
def hand_over(request, team, key):
    """Show the snapshot, notes and open questions for a hand-over; a POST makes it and shows its page."""
    head = load_header(request, team, key, "workspace-notes")
    workspace, caller = head.workspace, request.caller
    must(caller, "hand_over", workspace.team_id)
    form = HandOverForm(request.POST or None, workspace=workspace)
    if request.method == "POST" and form.is_valid():
        if "agent" in form.wish:
            must(caller, "manage_agents", workspace.team_id)
        try:
            made = handing.hand_over(workspace, caller=caller, **form.wish)
        except Problem as problem:
            form.add_error(None, problem.detail)
        else:
            return redirect("hand-over", team, key, made.pk)
    found = {
        "nav": "workspaces",
        "head": head,
        "form": form,
        "note": versions.newest(workspace),
        "questions": handing.open_questions(workspace),
        "earlier": handing.of_workspace(workspace)[:MAX_LISTED],
    }
    return render(request, "workspaces/hand_over.html", found)


@signed_in
@require_safe
def handed(request, team, key, pk):
    head = load_header(request, team, key, "workspace-notes")
    try:
        made = handing.find(head.workspace, pk)
    except Problem as problem:
        raise Http404(problem.detail) from None
    newest = versions.newest(head.workspace)
    found = {
        "nav": "workspaces",
        "head": head,
        "made": made,
        "manifest": getattr(made.snapshot, "manifest", None) if made.snapshot else None,
        "is_expired": bool(made.note) and made.note.is_expired(clock.now()),
        "newer_notes": newest if newest and made.note_id != newest.pk else None,
        "still_open": {each["name"] for each in handing.open_questions(head.workspace)},
    }
    return render(request, "workspaces/handed_over.html", found)
