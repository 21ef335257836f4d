"""The page of the log: its events with filters, whether it verifies, its export and its newest checkpoint."""

import json
from hashlib import sha256
from itertools import chain

from django.core.cache import cache
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from approvals.models import Action
from dashboard.database.batches import in_batches
from dashboard.event_log import checkpoints
from dashboard.event_log.sentences import details
from dashboard.event_log.verify import RENDER_SECONDS, verify_in_time
from dashboard.models import Event, Team
from dashboard.web import spans
from dashboard.web.pages import Slice, in_threads, must, parameters, signed_in, without
from handrail_verify.log import filter_note
from workspaces.models import Workspace


@signed_in
@require_safe
def log(request):
    caller = request.caller
    teams = [team for team in Team.objects.visible_to(caller) if caller.can("read_log", team)]
    events = _filtered(request, Event.objects.filter(team__in=teams).select_related("team"))
    page = Slice(request, events, by="at", size=100)
    names = dict(Workspace.objects.filter(pk__in={e.workspace_id for e in page}).values_list("pk", "key"))
    return render(
        request,
        "dashboard/log.html",
        {
            "nav": "log",
            "page": page,
            "rows": [(event, names.get(event.workspace_id, ""), details(event.data)) for event in page],
            **_proofs(teams),
            "filters": parameters(request, *FILTERS),
            "verbs": _verbs_of(teams),
            "query": without(request),
            "may_send_log": any(caller.can("manage_log_targets", team) for team in teams),
        },
    )


def _verbs_of(teams) -> list[str]:
    """Return the verbs in the logs of these teams, cached for a minute, because the query reads every event."""

    def read() -> list[str]:
        events = Event.objects.filter(team__in=teams)
        return list(events.order_by("verb").values_list("verb", flat=True).distinct())

    which = sha256("".join(sorted(team.pk.hex for team in teams)).encode()).hexdigest()
    return cache.get_or_set(f"log-verbs:{which}", read, 60)


def _proofs(teams, seconds: float = RENDER_SECONDS) -> dict:
    """Continue verifying the teams' logs: at least one batch of each, and more for about `seconds` in total."""
    proofs = [verify_in_time(team, seconds / len(teams)) for team in teams]
    unproven = any(proof.holds and not proof.is_whole for proof in proofs)
    return {"proofs": proofs, "unproven": unproven, "checkpoints_apart": checkpoints.is_apart()}


@signed_in
@require_safe
def log_proof(request):
    """Continue verifying the log while its page is open."""
    teams = [team for team in Team.objects.visible_to(request.caller) if request.caller.can("read_log", team)]
    found = _proofs(teams, seconds=0.5)
    return render(request, "dashboard/_log_proofs.html", found) if request.htmx else redirect("log")


FILTERS = ("verb", "actor", "workspace", "subject", "since", "until")


def _filtered(request, events):
    """Apply the filters of the query string; an invalid value matches nothing."""
    named = parameters(request, *FILTERS)
    if named["verb"]:
        events = events.filter(verb=named["verb"])
    if named["actor"]:
        events = events.filter(Q(actor_label__icontains=named["actor"]) | Q(actor_id=named["actor"]))
    if named["workspace"]:
        keys = Workspace.objects.visible_to(request.caller).filter(key=named["workspace"])
        events = events.filter(workspace_id__in=list(keys.values_list("pk", flat=True)))
    if named["subject"]:
        events = events.filter(subject_id=_subject_id(request.caller, named["subject"]))
    for name, lookup, end in (("since", "at__gte", 0), ("until", "at__lt", 1)):
        if named[name]:
            moment = spans.moment_of(named[name], end)
            events = events.filter(**{lookup: moment}) if moment else events.none()
    return events


def _subject_id(caller, text: str) -> str:
    """Return the id of action A-41 for "A-41", any other text as it is."""
    number = text.upper().removeprefix("A-")
    if text.upper().startswith("A-") and number.isdecimal():
        found = Action.objects.visible_to(caller).filter(number=number[:9]).values_list("pk", flat=True).first()
        return str(found or "")
    return text


@signed_in
@require_safe
def log_export(request):
    """Stream one team's events as JSON lines, oldest first, for `handrail_verify log`.

    A filtered export begins with a line that names the filters.
    """
    caller = request.caller
    team = _one_team(request)
    must(caller, "read_log", team)
    events = _filtered(request, Event.objects.filter(team=team)).order_by("seq")
    filters = {name: value for name, value in parameters(request, *FILTERS).items() if value}
    note = [filter_note(filters) + "\n"] if filters else []
    rows = (json.dumps(event.as_export(), ensure_ascii=False) + "\n" for event in in_batches(events))
    lines, name = chain(note, rows), f"handrail-{team.slug}-log{'-filtered' if filters else ''}.jsonl"
    return StreamingHttpResponse(
        in_threads(lines) if isinstance(request, ASGIRequest) else lines,
        content_type="application/jsonl; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _one_team(request) -> Team:
    """Return the team named in the query or form, else the caller's oldest; 404 if there is none."""
    teams = Team.objects.visible_to(request.caller)
    if slug := request.GET.get("team") or request.POST.get("team"):
        teams = teams.filter(slug=slug)
    found = teams.order_by("created_at").first()
    if found is None:
        raise Http404("no such team")
    return found


@signed_in
@require_safe
def checkpoint(request):
    """Download the newest signed checkpoint of one team's log, for `handrail_verify log --checkpoint`."""
    team = _one_team(request)
    must(request.caller, "read_log", team)
    signed = checkpoints.newest(team)
    if signed is None:
        raise Http404("no checkpoint yet")
    name = f"handrail-{team.slug}-checkpoint-{signed.seq}.json"
    text = json.dumps(checkpoints.as_download(signed), indent=2) + "\n"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="application/json; charset=utf-8", headers=headers)
