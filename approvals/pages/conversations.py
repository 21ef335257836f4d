"""Conversations: the sessions of a team, an agent or a workspace, and the messages of one."""

from django.contrib import messages as notices
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from approvals.models import Action, AgentSession
from approvals.sessions import exporting, reading
from dashboard.models import Agent
from dashboard.web.pages import Slice, as_uuid, download, parameters, signed_in
from workspaces.pages.header import load_header

PAGE = 100  # messages
FORMS = {"jsonl": exporting.json_lines, "md": exporting.markdown}
KINDS = {"jsonl": "application/jsonl", "md": "text/markdown; charset=utf-8"}


@signed_in
@require_safe
def everywhere(request):
    """List the sessions that the person may see, those of one agent if it is named."""
    agents, named = Agent.objects.visible_to(request.caller), parameters(request, "agent")["agent"]
    agent = get_object_or_404(agents.select_related("owner"), pk=as_uuid(named)) if named else None
    found = reading.main_sessions(reading.sessions_for(request.caller, agent=agent))
    page = Slice(request, found, by=reading.NEWEST)
    context = {"nav": "agents", "agent": agent, "page": page, "sub_agents": reading.SUB_AGENTS}
    return render(request, "approvals/conversations.html", context)


@signed_in
@require_safe
def of_workspace(request, team, key):
    """List the sessions that worked in a workspace, beside its other tabs."""
    head = load_header(request, team, key, "workspace-conversations")
    found = reading.main_sessions(reading.sessions_for(request.caller, workspace=head.workspace), head.workspace)
    page = Slice(request, found, by=reading.NEWEST)
    context = {"nav": "workspaces", "head": head, "page": page, "sub_agents": reading.SUB_AGENTS}
    return render(request, "approvals/workspace_conversations.html", context)


@signed_in
@require_safe
def conversation(request, pk):
    """Show the newest messages of a session, the oldest of them first; `upto` names one that stands last."""
    session = _session(request, pk)
    rows, upto = reading.messages_of(session), parameters(request, "upto")["upto"]
    if upto.isdecimal() and len(upto) < 10 and (last := session.messages.filter(seq=int(upto)).first()):
        rows = rows.filter(at__lte=last.at)
    page = Slice(request, rows, by=reading.IN_ORDER, size=PAGE)
    said = reading.with_started(page.rows[::-1], session)
    context = {"nav": "agents", "session": session, "page": page, "said": said, "upto": upto}
    context["children"] = session.children.order_by("started_at")[:PAGE]
    context["follows"] = session.follows.exclude(problem="")
    return render(request, "approvals/conversation.html", context)


@signed_in
@require_safe
def whole(request, pk, number):
    """Download the whole text of one message."""
    session = _session(request, pk)
    message = get_object_or_404(session.messages, seq=number)
    name = f"{session.native_id[:40]}-{number}.txt"
    return download(request, iter([message.whole.encode()]), name, "text/plain; charset=utf-8")


@signed_in
@require_safe
def export(request, pk, form):
    """Download a session as JSON lines or Markdown."""
    session = _session(request, pk)
    return download(request, FORMS[form](session), f"{session.native_id[:40]}.{form}", KINDS[form])


@signed_in
@require_safe
def of_action(request, pk):
    """Lead from a card to its call in the conversation."""
    action = get_object_or_404(Action.objects.visible_to(request.caller), pk=pk)
    message = reading.message_of(action, request.caller)
    if message is None:
        notices.info(request, gettext("No conversation is kept for this call."))
        return redirect("action", action.pk)
    return redirect(message.url)


def _session(request, pk) -> AgentSession:
    return get_object_or_404(reading.sessions_for(request.caller), pk=pk)
