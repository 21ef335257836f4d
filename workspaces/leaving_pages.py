"""Pages on which something is taken back in part, copied, or leaves: one file or hunk, a fork, a bundle, a push."""

from django.contrib import messages
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.pages import asked, carry_out, download, must, signed_in
from dashboard.problems import Problem, invalid
from workspaces import effects, history, leaving, lifecycle, taking_back
from workspaces.head import look


@signed_in
@require_POST
def take_back_file(request, team, key):
    """One file of the Changes page, back to what it was in the snapshot on the left."""
    head = look(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    wish = asked(request, "from", "path")
    return carry_out(
        request,
        lambda: taking_back.file(head.workspace, _number(wish["from"]), wish["path"], by=request.caller.actor),
        then=lambda effect: reverse("workspace-move", args=[team, key, effect.pk]),
        otherwise=_changes(team, key, wish["from"]),
    )


@signed_in
@require_POST
def take_back_hunk(request, team, key):
    """One part of one file, back to its lines in the snapshot on the left."""
    head = look(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    wish = asked(request, "from", "path", "index", "seen")
    path = wish["path"].encode("utf-8", "surrogateescape")
    return carry_out(
        request,
        lambda: taking_back.hunk(
            head.workspace,
            _number(wish["from"]),
            path,
            _number(wish["index"]),
            wish["seen"],
            by=request.caller.actor,
        ),
        then=_changes(team, key, wish["from"]),
        say="That part is as it was. What was there is in the newest safety snapshot.",
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise invalid("That is no number.")
    return int(text)


def _changes(team, key, from_) -> str:
    query = f"?from={from_}&to=live" if from_.isdecimal() else ""
    return reverse("workspace-changes", args=[team, key]) + query


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def fork(request, team, key, number):
    """A new workspace with a snapshot's files."""
    head = look(request, team, key, "workspace-snapshots")
    must(request.caller, "create_workspace", head.workspace.team_id)
    refused = ""
    name = asked(request, "key")["key"] if request.method == "POST" else f"{key[:50]}-fork"
    if request.method == "POST":
        try:
            made = lifecycle.fork(head.workspace, lifecycle.check_key(name), caller=request.caller, number=number)
            return redirect("workspace", team, made.key)
        except Problem as problem:
            refused = problem.detail
    context = {"nav": "workspaces", "head": head, "number": number, "name": name, "refused": refused}
    return render(request, "workspaces/fork.html", context)


@signed_in
@require_POST
def bundle(request, team, key):
    """A git bundle of what is committed, as a download."""
    head = look(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)

    try:
        effect = effects.wait(leaving.bundle(head.workspace, by=request.caller.actor), 120)
        if not effects.is_over(effect) or not effect.outcome["ok"]:
            raise invalid((effect.outcome or {}).get("reason") or "The bundle is not there yet; try again.")
        pieces = history.read_bundle(head.workspace)
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect(_changes(team, key, ""))
    return download(request, pieces, f"{key}.bundle")


@signed_in
@require_POST
def push(request, team, key):
    """HEAD to a branch of the repository it came from, by a person who may."""
    head = look(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)
    branch = asked(request, "branch")["branch"]

    def pushed():
        effect = effects.wait(leaving.push(head.workspace, branch, by=request.caller.actor), 120)
        if not effects.is_over(effect) or not effect.outcome["ok"]:
            raise invalid((effect.outcome or {}).get("reason") or "It is still being pushed; look at the timeline.")
        return effect

    return carry_out(request, pushed, then=_changes(team, key, ""), say=lambda effect: effect.outcome["reason"])
