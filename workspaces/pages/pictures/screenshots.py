"""The picture of a page that is kept with a snapshot: sent by a person, taken of a preview, shown and deleted."""

from django import forms
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.problems import Problem, conflict, invalid
from dashboard.web.pages import READ_OR_WRITE, ask_first, carry_out, must, signed_in
from workspaces.changes import history
from workspaces.changes.comparisons import Point
from workspaces.models import Snapshot
from workspaces.pages import images
from workspaces.pages.header import load_header
from workspaces.services.screenshots import keeping, taking


class PictureForm(forms.Form):
    picture = forms.FileField(
        label=gettext_lazy("PNG or JPEG, up to 2 MB"),
        widget=forms.FileInput(attrs={"accept": "image/png,image/jpeg"}),
    )
    page = forms.CharField(
        label=gettext_lazy("Address that it shows"),
        required=False,
        max_length=keeping.MAX_PAGE,
        widget=forms.TextInput(attrs={"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}),
    )


def shown_at(points: list[Point]) -> list[tuple]:
    """Return (point, picture, its address) of the points that are snapshots with one."""
    found = []
    for point in points:
        if point.at != history.LIVE and (picture := keeping.of(point.workspace, [point.at]).get(point.at)):
            here = reverse("snapshot-screenshot", args=[point.workspace.team.slug, point.workspace.key, point.at])
            found.append((point, picture, here))
    return found


@signed_in
@require_safe
def image(request, team, key, number):
    """Return the picture, for an <img> of the page."""
    head = load_header(request, team, key, "workspace-snapshots")
    try:
        found = keeping.read(_snapshot(head.workspace, number))
    except Problem:
        raise Http404("no such screenshot") from None
    return images.answer(bytes(found.data))


@signed_in
@require_POST
def keep(request, team, key, number):
    """Keep a picture that a person sends."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "keep_screenshot", head.workspace.team_id)
    snapshot, form = _snapshot(head.workspace, number), PictureForm(request.POST, request.FILES)

    def done():
        if not form.is_valid():
            raise invalid(next(iter(form.errors.values()))[0])
        picture = form.cleaned_data["picture"]
        data = picture.read(keeping.MAX_BYTES + 1)
        return keeping.save(snapshot, data, page=form.cleaned_data["page"], by=request.caller.actor)

    return carry_out(request, done, then=_page_of(head.workspace, number), say=gettext("The screenshot is kept."))


@signed_in
@require_POST
def take(request, team, key):
    """Have a browser of this host take a picture of a preview, and keep it with the newest snapshot."""
    head = load_header(request, team, key, "workspace-network")
    for verb in ("preview", "keep_screenshot"):
        must(request.caller, verb, head.workspace.team_id)
    snapshot = head.workspace.head
    port = request.POST.get("port", "")

    def done():
        if snapshot is None:
            raise conflict("There is no snapshot yet. Take one first.")
        number = int(port) if port.isdecimal() and len(port) < 6 else 0
        return taking.take(snapshot, number, caller=request.caller, session_key=request.session.session_key)

    return carry_out(
        request,
        done,
        then=_page_of(head.workspace, snapshot.number) if snapshot else "",
        otherwise=reverse("workspace-network", args=[team, key]),
        say=gettext("The screenshot is kept."),
    )


@signed_in
@READ_OR_WRITE
def remove(request, team, key, number):
    """Ask before the picture of a snapshot is deleted; a POST deletes it."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "keep_screenshot", head.workspace.team_id)
    snapshot = _snapshot(head.workspace, number)
    if request.method != "POST":
        return ask_first(
            request,
            title=gettext("Delete the picture of snapshot %(number)s?") % {"number": number},
            says=gettext("The picture is deleted for good. The snapshot stays."),
            verb=gettext("Delete the picture"),
            back=_page_of(head.workspace, number),
        )
    return carry_out(
        request,
        lambda: keeping.remove(snapshot, by=request.caller.actor),
        then=_page_of(head.workspace, number),
        say=gettext("The screenshot is deleted."),
    )


def _snapshot(workspace, number: int) -> Snapshot:
    try:
        return history.find_snapshot(workspace, number)
    except Problem:
        raise Http404("no such snapshot") from None


def _page_of(workspace, number: int) -> str:
    return reverse("snapshot", args=[workspace.team.slug, workspace.key, number])
