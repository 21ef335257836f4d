"""Comments on lines of diffs: write one on a workspace's changes or a card, change, delete and send drafts."""

from urllib.parse import unquote_to_bytes, urlencode

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST

from approvals.line_comments import drafts, sending
from approvals.models import LineComment
from approvals.pages.actions import find_action
from approvals.pages.list_filters import chosen_filters, filter_query
from dashboard.models import Agent
from dashboard.problems import Problem, invalid
from dashboard.web.pages import READ_OR_WRITE, as_uuid, carry_out, go_to, must, parameters, signed_in
from workspaces.pages import diff_sections
from workspaces.pages.changed_file import section_of
from workspaces.pages.header import load_header

MAX_LINE = 10**8


def _wish(request) -> dict:
    """Return side, line, end_line and text of the form. Problem 422 if a number is none."""
    given = parameters(request, "side", "line", "end", "text")
    numbers = [given["line"], given["end"] or given["line"]]
    if not all(text.isascii() and text.isdecimal() and 0 < int(text[:12]) < MAX_LINE for text in numbers):
        raise invalid(gettext("Give the number of a line."))
    return {"side": given["side"], "line": int(numbers[0]), "end_line": int(numbers[1]), "text": given["text"]}


@signed_in
@require_POST
def on_changes(request, team, key):
    """Write a draft on lines of a changed file; for htmx answer with the file's section and the list of drafts."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "decide", head.workspace.team_id)
    section = section_of(request, head.workspace)
    view, row = section.view, section.row

    def write():
        points = (view.points["from"], view.points["to"])
        return drafts.on_changes(
            head.workspace,
            view.comparison,
            row.path,
            row.old_path or b"",
            points,
            caller=request.caller,
            **_wish(request),
        )

    then = f"{reverse('workspace-changes', args=[team, key])}?{view.query()}#{section.anchor}"
    if not request.htmx:
        return carry_out(request, write, then=then, say=gettext("Kept as a draft. Send it below."))
    try:
        write()
    except Problem as problem:
        return _section(request, head, section, refused=problem.detail, given=request.POST)
    return _section(request, head, section)


def _section(request, head, section, **more):
    diff_sections.fill(section)
    context = {"head": head, "section": section, "split": section.view.split}
    context["drafts"] = sending.drafts_on(head.workspace, request.caller)
    return render(request, "approvals/_commented_file.html", context | more)


@signed_in
@require_POST
def on_card(request, pk):
    """Write a draft on lines of a diff that the card shows."""
    action = find_action(request, pk)
    must(request.caller, "decide", action.team_id)
    path = unquote_to_bytes(parameters(request, "path")["path"])
    return carry_out(
        request,
        lambda: drafts.on_card(action, path, caller=request.caller, **_wish(request)),
        then=_card(request, pk) + "#draft-comments",
        say=gettext("Kept as a draft. It goes along when you deny the call, or as a message."),
    )


def _card(request, pk) -> str:
    return reverse("action", args=[pk]) + filter_query(chosen_filters(request))


@signed_in
@READ_OR_WRITE
def comment(request, pk):
    """Show one's own draft in a form, and lead from any other comment to its diff; on POST change or delete a draft."""
    rows = LineComment.objects.visible_to(request.caller).select_related("workspace__team", "action", "user")
    found = get_object_or_404(rows, pk=pk)
    then = _place(found)
    if request.method != "POST":
        if not found.is_draft:
            return go_to(request, f"{then}#comment-{found.pk}")
        context = {"nav": "waiting", "comment": found, "back": f"{then}#draft-comments"}
        return render(request, "approvals/line_comment.html", context)
    must(request.caller, "decide", found.team_id)
    then += "#draft-comments"
    if "delete" in request.POST:
        say = gettext("Deleted the draft.")
        return carry_out(request, lambda: drafts.delete(_own(request, pk)), then=then, say=say)
    text = parameters(request, "text")["text"]
    say = gettext("Saved the draft.")
    return carry_out(
        request,
        lambda: drafts.change(_own(request, pk), text),
        then=then,
        otherwise=request.path,
        say=say,
    )


def _own(request, pk) -> LineComment:
    return drafts.find(pk, caller=request.caller)


def _place(comment: LineComment) -> str:
    """Return the address of the diff that the comment was written on."""
    if comment.action_id:
        return reverse("action", args=[comment.action_id])
    workspace = comment.workspace
    here = reverse("workspace-changes", args=[workspace.team.slug, workspace.key])
    return f"{here}?{urlencode({'from': comment.from_point, 'to': comment.to_point})}"


@signed_in
@require_POST
def send_changes(request, team, key):
    """Send one's drafts on a workspace's changes to an agent."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "decide", head.workspace.team_id)
    wish = parameters(request, "agent", "from", "to")
    agents = Agent.objects.filter(pk__in=[agent.pk for agent in sending.recipients(head.workspace)])
    agent = get_object_or_404(agents, pk=as_uuid(wish["agent"]))
    found = drafts.of_workspace(head.workspace, request.caller)
    here = reverse("workspace-changes", args=[team, key])
    return carry_out(
        request,
        lambda: sending.as_message(found, agent, session="", caller=request.caller),
        then=f"{here}?{urlencode({'from': wish['from'], 'to': wish['to']})}" if wish["from"] else here,
        say=_sent_notice(agent),
    )


@signed_in
@require_POST
def send_card(request, pk):
    """Send one's drafts on a card, and on its workspace's changes, to the agent that asked."""
    action = find_action(request, pk)
    must(request.caller, "decide", action.team_id)
    found = drafts.of_card(action, request.caller)
    return carry_out(
        request,
        lambda: sending.as_message(found, action.agent, session=action.session, caller=request.caller),
        then=_card(request, pk),
        say=_sent_notice(action.agent),
    )


def _sent_notice(agent):
    def words(sent: list) -> str:
        said = ngettext("Sent %(n)s comment to %(agent)s.", "Sent %(n)s comments to %(agent)s.", len(sent))
        return said % {"n": len(sent), "agent": agent}

    return words
