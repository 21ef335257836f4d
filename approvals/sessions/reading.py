"""Conversations as pages, API and exports read them: sessions, their messages, and the message of an action."""

from django.db.models import Prefetch, Q, QuerySet
from django.urls import reverse

from approvals.models import Action, AgentSession, Message
from dashboard.web.lookup import Order

IN_ORDER = Order("at")  # of messages, for keyset pages
SUB_AGENTS = 5  # shown below the session that started them, in a list
NEWEST = Order("last_at")  # of sessions


def sessions_for(caller, *, agent=None, workspace=None) -> QuerySet[AgentSession]:
    """Return the sessions that the caller may see, with the columns that a list shows."""
    found = AgentSession.objects.visible_to(caller).select_related("agent__owner", "team", "workspace__team", "parent")
    if agent is not None:
        found = found.filter(agent=agent)
    return found if workspace is None else found.filter(workspace=workspace)


def main_sessions(sessions: QuerySet[AgentSession], workspace=None) -> QuerySet[AgentSession]:
    """Return the sessions that no other of these has started, each with `sub_agents`, its newest ones."""
    is_main = Q(parent=None) if workspace is None else Q(parent=None) | ~Q(parent__workspace=workspace)
    newest = AgentSession.objects.select_related("agent__owner").order_by("-last_at", "pk")[: SUB_AGENTS + 1]
    children = Prefetch("children", newest, to_attr="sub_agents")
    return sessions.filter(is_main).prefetch_related(children)


def with_started(rows: list[Message], session: AgentSession) -> list[Message]:
    """Give each call of a page the sub-agent that it has started as `started`."""
    ids = [row.call_id for row in rows if row.kind == "call" and row.call_id]
    children = AgentSession.objects.filter(parent=session.parent_id or session.pk, call_id__in=ids)
    started = {child.call_id: child for child in children.exclude(pk=session.pk)}
    for row in rows:
        row.started = started.get(row.call_id) if row.kind == "call" else None
    return rows


def messages_of(session: AgentSession) -> QuerySet[Message]:
    """Return the session's messages with their actions and bodies, in a constant number of queries."""
    joined = ("by", "action__snapshot_before", "action__workspace__team")
    return session.messages.select_related(*joined)


def message_of(action: Action, caller) -> Message | None:
    """Return the call that an action was asked by, as it stands in its conversation; None if none was kept."""
    mine = AgentSession.objects.visible_to(caller).values("pk")
    found = action.said.filter(session__in=mine, kind="call").select_related("session")
    return found.order_by("-seq").first()


def messages_in(workspace) -> QuerySet[Message]:
    """Return prompts and answers of the sessions in a workspace, for its timeline; its actions stand there already."""
    told = Message.objects.filter(session__workspace=workspace, kind="text", role__in=["user", "assistant"])
    return told.select_related("session__agent__owner", "by")


def task_in(workspace) -> dict | None:
    """Return {title, agent, url, started_at, ended_at} of the newest main session in a workspace; None without one."""
    found = AgentSession.objects.filter(workspace=workspace, parent=None).select_related("agent__owner")
    session = found.order_by("-last_at", "pk").first()
    if session is None:
        return None
    return {
        "title": session.title,
        "agent": str(session.agent),
        "url": reverse("conversation", args=[session.pk]),
        "started_at": session.started_at,
        "ended_at": session.ended_at,
    }
