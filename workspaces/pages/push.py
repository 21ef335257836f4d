"""The Export page with what a push would send where; pushes and pull requests, whose result it shows."""

from urllib.parse import urlencode

from django.contrib import messages
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.problems import Problem, conflict
from dashboard.web.pages import (
    as_uuid,
    ask_first,
    carry_out,
    is_confirmed,
    must,
    parameters,
    signed_in,
    take_form,
)
from workspaces import code_hosts
from workspaces.models import Operation, State
from workspaces.pages.forms import BranchForm, PullRequestForm
from workspaces.pages.header import load_header
from workspaces.pages.operation_view import OperationView
from workspaces.services import git_export, left_out, pull_requests, pushed

FIRST = 3  # commits, and files, that are shown unfolded


@signed_in
@require_POST
def push(request, team, key):
    """Push HEAD to a branch of the source repository; the page then shows how it goes."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)
    shown = parameters(request, "sha", "seen")
    form = BranchForm(request.POST)

    def submit(fields):
        git_export.check_push(head.workspace, fields["branch"])
        must_be_shown(shown)
        return git_export.push(head.workspace, fields["branch"], by=request.caller.actor, **shown)

    if not is_confirmed(request) and form.is_valid() and (why := _default_branch_warning(head.workspace, form, shown)):
        return ask_first(request, **why, back=_address(head, branch=form.cleaned_data["branch"]))
    return take_form(
        request,
        form,
        submit,
        shown=lambda form: _page(request, head, push_form=form),
        then=lambda operation: _address(head, operation=operation.pk),
        otherwise=_address(head),
        at="branch",
    )


def _default_branch_warning(workspace, form: BranchForm, shown: dict) -> dict:
    """Return what `ask_first` says of a push to the source's default branch; {} for one to another branch."""
    branch = form.cleaned_data["branch"]
    try:
        git_export.check_push(workspace, branch)
    except Problem:
        return {}
    default = git_export.find_default_branch(workspace)
    if not all(shown.values()) or (default and not code_hosts.same_branch(branch, default)):
        return {}
    names = {"branch": default or branch, "git": workspace.remote}
    if default:
        says = gettext("%(branch)s is the default branch of %(git)s. A push can't be undone.")
    else:
        says = gettext("%(git)s doesn't say which branch is its default. It may be %(branch)s.")
    return {
        "title": gettext("Push to %(branch)s?") % {"branch": branch},
        "says": says % names,
        "verb": gettext("Push to %(branch)s") % {"branch": branch},
        "text": _gets(git_export.would_push(workspace, branch)),
    }


def _gets(told: dict) -> str:
    """Return the commits that a branch would get, one a line."""
    sent = next(iter(told.get("sends") or ()), {})
    lines = [f"{each['sha'][:10]} {each['subject']}" for each in sent.get("commits", ())]
    more = sent.get("count", 0) - len(lines)
    return "\n".join([*lines, *([f"+ {more:,}"] if more > 0 else [])])


def must_be_shown(shown: dict):
    """Problem 409 for a form without the commit that the page showed."""
    if not all(shown.values()):
        raise conflict(gettext("The page didn't show what would be pushed. Nothing was pushed. Look at it again."))


def _address(head, **query) -> str:
    here = reverse("workspace-export", args=[head.workspace.team.slug, head.workspace.key])
    return here + (f"?{urlencode(query)}" if query else "")


@signed_in
@require_POST
def open_pull_request(request, team, key):
    """Push HEAD to a branch and open a pull request at the code host."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)

    def submit(fields):
        shown = parameters(request, "sha", "seen")
        wanted = pull_requests.prepare(head.workspace, fields | shown, at_once=True)
        must_be_shown(shown)
        return pull_requests.submit(head.workspace, wanted, by=request.caller.actor)

    return take_form(
        request,
        PullRequestForm(request.POST, auto_id="pull-%s"),
        submit,
        shown=lambda form: _page(request, head, pull_form=form),
        then=lambda operation: _address(head, operation=operation.pk),
        otherwise=_address(head),
        at="branch",
    )


@signed_in
@require_POST
def open_again(request, team, key, pk):
    """Open a pull request whose push arrived before."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)
    failed = get_object_or_404(Operation, pk=pk, workspace=head.workspace)
    return carry_out(
        request,
        lambda: pull_requests.again(failed, by=request.caller.actor),
        then=lambda operation: _address(head, operation=operation.pk),
        otherwise=_address(head),
    )


@signed_in
@require_safe
def page(request, team, key):
    """Show the ways out: a push with what it sends where and leaves out, a pull request, downloads."""
    return _page(request, load_header(request, team, key, "workspace-changes"))


def _page(request, head, *, push_form: BranchForm | None = None, pull_form: PullRequestForm | None = None):
    """Render the page, with the form that was refused in the place of an empty one."""
    workspace = head.workspace
    may_use = request.caller.can("use_workspace", workspace.team_id)
    is_up = workspace.state in (State.READY, State.PAUSED)  # a paused one is resumed for the push
    context = {"nav": "workspaces", "head": head, "may_use": may_use, "is_up": is_up}
    context |= {"pull_requests": pull_requests.of(workspace)[:50], "pushed": pushed.newest_pushes(workspace)[:20]}
    operation = _operation(request, workspace)
    if operation:
        context["operation"] = OperationView(operation)
        context["other_branch"] = git_export.another_branch(operation)
    if operation and not context["operation"].is_over:
        context["under_way"] = operation
    elif may_use and is_up and workspace.remote:
        context |= _what_goes(request, workspace, operation, push_form, pull_form)
    if (refused := push_form or pull_form) and "push_form" not in context:
        messages.error(request, next(iter(refused.errors.values()))[0])  # the form isn't shown
    return render(request, "workspaces/export.html", context)


def _operation(request, workspace) -> Operation | None:
    """Return the push or pull request that is under way, else the one that the address names."""
    rows = Operation.objects.filter(workspace=workspace, kind__in=pushed.KINDS)
    if under_way := rows.open().order_by("created_at").first():
        return under_way
    asked_for = as_uuid(request.GET.get("operation", ""))
    return get_object_or_404(rows, pk=asked_for) if asked_for else None


def _what_goes(request, workspace, operation, push_form, pull_form) -> dict:
    """Return what a push would send, what it leaves out, and the forms with a proposed or the typed branch."""
    told = git_export.would_push(workspace)
    sends = next(iter(told.get("sends") or ()), {})
    context = {"cannot_tell": told.get("error"), "leaves": left_out.sentences(told.get("left", {})), "sends": sends}
    context["seen"] = git_export.seen_of(sends) if "sha" in sends else ""
    if sends.get("commits") is not None:
        context |= {"commits": _folded(sends["commits"], sends["count"])}
        context |= {"files": _folded(sends["files"]["first"], sends["files"]["count"])}
    current = told.get("branch", "")
    typed = operation.args if operation and not (operation.outcome or {}).get("ok") else {}
    chosen = request.GET.get("branch", "")[:200] or typed.get("branch")
    branch = chosen or git_export.proposed_branch(workspace, current, is_there=bool(sends.get("tracked")))
    context |= {"current": current, "default": workspace.default_branch}
    context["push_form"] = push_form or BranchForm(initial={"branch": branch})
    context |= _pull_request(workspace, branch)
    of_pull = {name: typed[name] for name in ("title", "body", "base", "draft") if typed.get(name)}
    first = context.get("description", {}) | {"base": workspace.default_branch, "branch": branch} | of_pull
    context["pull_form"] = pull_form or PullRequestForm(auto_id="pull-%s", initial=first)
    return context


def _folded(rows: list, count: int) -> dict:
    """Return {first, all, words, more}: the rows shown, those behind a fold, its label, how many are not listed."""
    words = ngettext("In full", "All %(n)s, in full", count) % {"n": f"{count:,}"}
    return {"first": rows[:FIRST], "all": rows, "words": words, "more": count - len(rows)}


def _pull_request(workspace, branch: str) -> dict:
    """Return {repository, description, …} for the form; {} where there is no code host."""
    try:
        repository = pull_requests.repository_of(workspace)
    except Problem:
        return {}
    return {
        "repository": repository,
        "has_token": pull_requests.has_token(workspace),
        "secret_name": getattr(pull_requests.secret_for(workspace.team_id, repository), "name", ""),
        "description": pull_requests.describe(workspace, branch),
    }
