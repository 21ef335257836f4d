"""Lessons of repositories: listed, proposed from a workspace's notes, and decided beside the difference they make."""

from django import forms
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, Slice, ask_first, carry_out, must, parameters, signed_in
from workspaces.models import Lesson, LessonState
from workspaces.pages.header import load_header
from workspaces.pages.notes import CODE_FIELD
from workspaces.services.notes import lessons, texts, versions

STATES = {
    LessonState.PROPOSED.value: gettext_lazy("Proposed"),
    LessonState.ACCEPTED.value: gettext_lazy("In force"),
    LessonState.DECLINED.value: gettext_lazy("Declined"),
    LessonState.REMOVED.value: gettext_lazy("Removed"),
}
DAYS = 180


class LessonForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Lesson"),
        strip=False,
        widget=forms.Textarea(attrs=CODE_FIELD),
        help_text=gettext_lazy("Keep only what helps in other workspaces of this repository."),
    )
    days = forms.IntegerField(
        label=gettext_lazy("Days until it expires"),
        required=False,
        min_value=1,
        max_value=texts.MAX_DAYS,
        help_text=gettext_lazy("Counted from when it is accepted. Empty: never."),
    )
    version = forms.IntegerField(required=False, min_value=1, max_value=10**8, widget=forms.HiddenInput)


@signed_in
@require_safe
def index(request):
    """List lessons, of all repositories or one, in one state or all."""
    chosen = parameters(request, "repository", "state")
    rows = lessons.visible_to(request.caller).filter(**{name: value for name, value in chosen.items() if value})
    page, now = Slice(request, rows), clock.now()
    found = {
        "nav": "lessons",
        "page": page,
        "rows": [(lesson, STATES[lesson.state], lesson.is_expired(now)) for lesson in page],
        "chosen": chosen,
        "states": STATES.items(),
    }
    return render(request, "workspaces/lessons.html", found)


@signed_in
@READ_OR_WRITE
def propose(request, team, key):
    """Choose lines of the notes for the repository; a POST proposes them and shows the difference."""
    head = load_header(request, team, key, "workspace-notes")
    workspace, caller = head.workspace, request.caller
    must(caller, "propose_lesson", workspace.team_id)
    newest = versions.newest(workspace)
    start = {"text": newest.text if newest else "", "days": DAYS, "version": newest.number if newest else None}
    form = LessonForm(request.POST or None, initial=start)
    if request.method == "POST" and form.is_valid():
        wish = form.cleaned_data
        try:
            note = versions.find(workspace, wish["version"]) if wish["version"] else None
            made = lessons.propose(workspace, wish["text"], by=caller.actor, days=wish["days"], note=note)
        except Problem as refused:
            form.add_error(None, refused.detail)
        else:
            return redirect("lesson", made.pk)
    repository = lessons.repository_of(workspace)
    found = {"nav": "workspaces", "head": head, "form": form, "repository": repository}
    return render(request, "workspaces/lesson_propose.html", found)


@signed_in
@require_safe
def lesson(request, pk):
    """Show a lesson, and the difference that a decision on it makes to what workspaces are given."""
    found = _lesson_or_404(request, pk)
    decides = found.state in (LessonState.PROPOSED, LessonState.ACCEPTED)
    context = {
        "nav": "lessons",
        "lesson": found,
        "state": STATES[found.state],
        "is_expired": found.is_expired(clock.now()),
        "seen": lessons.seen_digest(found),
        "difference": lessons.difference(found) if decides else None,
        "may_decide": decides and request.caller.can("decide_lesson", found.team_id),
    }
    found.refresh_from_db()  # the difference was made with a decision that nobody has taken
    return render(request, "workspaces/lesson.html", context)


def _lesson_or_404(request, pk) -> Lesson:
    try:
        return lessons.find(request.caller, pk)
    except Problem as problem:
        raise Http404(problem.detail) from None


def _decide(request, pk, do, say: str):
    found = _lesson_or_404(request, pk)
    must(request.caller, "decide_lesson", found.team_id)
    here = reverse("lesson", args=[pk])
    return carry_out(request, lambda: do(found), then=here, say=say)


@signed_in
@require_POST
def accept(request, pk):
    seen, by = parameters(request, "seen")["seen"], request.caller.actor
    said = gettext("Accepted. The next start of each workspace of this repository is given it.")
    return _decide(request, pk, lambda found: lessons.accept(found, seen=seen, by=by), said)


@signed_in
@require_POST
def decline(request, pk):
    by = request.caller.actor
    return _decide(request, pk, lambda found: lessons.decline(found, by=by), gettext("Declined. Nobody is given it."))


@signed_in
@READ_OR_WRITE
def remove(request, pk):
    """Ask before an accepted lesson is removed; a POST removes it."""
    by = request.caller.actor
    if request.method != "POST":
        must(request.caller, "decide_lesson", _lesson_or_404(request, pk).team_id)
        return ask_first(
            request,
            title=gettext("Remove this lesson?"),
            says=gettext("The next start of each workspace no longer gets it."),
            verb=gettext("Remove"),
            back=reverse("lesson", args=[pk]),
        )
    said = gettext("Removed. The next start of each workspace no longer gets it.")
    return _decide(request, pk, lambda found: lessons.remove(found, by=by), said)
