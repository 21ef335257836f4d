"""Send drafts to an agent: as messages, or with the denial of a call."""

from approvals.actions import decisions
from approvals.actions.answer import DENY, Answer
from approvals.line_comments import drafts as drafts_of
from approvals.models import Action, LineComment
from approvals.sessions import messages
from dashboard.database import clock
from dashboard.models import Agent, Event, Team
from dashboard.problems import conflict, invalid
from workspaces.models import Workspace

QUOTED_LINES = 3  # of a comment's lines that the agent gets
QUOTED_CHARS = 160  # of each


def in_words(comment: LineComment) -> str:
    """Return the comment as the agent reads it: `path:line: text`, and below it the quoted lines."""
    before = " (before the change)" if comment.side == "old" else ""
    quote = comment.quote.split("\n")
    shown = [f"> {line[:QUOTED_CHARS]}{'…' if len(line) > QUOTED_CHARS else ''}" for line in quote[:QUOTED_LINES]]
    more = ["> …"] if len(quote) > QUOTED_LINES else []
    return "\n".join([f"{_plain(comment.shown_path)}:{comment.lines}{before}: {comment.text}", *shown, *more])


def _plain(path: str) -> str:
    """Return the path on one line, with what is not printable as escapes."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def as_message(drafts, agent: Agent, *, session: str, caller) -> list[LineComment]:
    """Send all of these drafts to the agent, as few messages. Problem 403, 409 if there are none, 422."""
    messages.check_may_talk(agent, caller)
    with Team.objects.turn(agent.team_id):
        rows = _locked(drafts)
        for group in _groups(rows):
            text = "\n\n".join(in_words(each) for each in group)
            message = messages.send(agent, session=session, caller=caller, text=text)
            _mark_sent(group, agent, caller, message=message)
    return rows


def _groups(rows: list[LineComment]):
    """Yield as many comments at once as one message takes."""
    group, length = [], 0
    for each in rows:
        size = len(in_words(each)) + 2
        if group and length + size > messages.MAX_TEXT:
            yield group
            group, length = [], 0
        group.append(each)
        length += size
    yield group


def with_denial(action: Action, *, drafts, caller, digest: str, comment: str, send_back: bool = False) -> Action:
    """Deny the action with its words and these drafts as the reason. Problem 403, 409, 422: nothing is sent then."""
    with Team.objects.turn(action.team_id):
        rows = _locked(drafts)
        said = messages.without_secrets("\n\n".join(in_words(each) for each in rows), action.agent, action.session)
        whole = f"{comment.strip()}\n\n{said}".strip()
        if len(whole) > decisions.MAX_COMMENT:
            raise invalid(
                f"The reason and its comments on lines have {len(whole):,} characters together, and at most "
                f"{decisions.MAX_COMMENT:,} go with a denial. Send the comments as a message first."
            )
        decisions.decide(action, Answer(DENY, digest, whole, send_back=send_back), caller=caller)
        decision = action.decisions.get(final=True)
        _mark_sent(rows, action.agent, caller, decision=decision)
    return action


def _locked(drafts) -> list[LineComment]:
    rows = list(drafts.locked())
    if not rows:
        raise conflict("There is no draft to send.")
    return rows


def _mark_sent(rows: list[LineComment], agent: Agent, caller, **how):
    LineComment.objects.filter(pk__in=[each.pk for each in rows]).update(sent_at=clock.now(), agent=agent, **how)
    [(way, made)] = how.items()
    data = {"count": len(rows), "paths": sorted({each.path for each in rows})[:20], way: str(made.pk)}
    action = getattr(made, "action", None)
    data |= {"action": str(action.pk)} if action else {}
    workspace = rows[0].workspace_id
    Event.objects.record(
        agent.team_id, actor=caller.actor, verb="comments.sent", subject=agent, workspace=workspace, data=data
    )


def recipients(workspace: Workspace) -> list[Agent]:
    """Return the agents that may get comments on a workspace's changes: its maker, those bound, those that asked."""
    asked = Action.objects.filter(workspace=workspace).values("agent")
    bound = workspace.bound_agents.values("pk")
    ids = {workspace.created_by_agent_id} - {None}
    found = Agent.objects.filter(team=workspace.team_id)
    return list((found.filter(pk__in=ids) | found.filter(pk__in=bound) | found.filter(pk__in=asked)).order_by("name"))


def drafts_on(workspace: Workspace, caller) -> dict | None:
    """Return the caller's drafts on a workspace's changes, and who can get them; None without any."""
    found = list(drafts_of.of_workspace(workspace, caller).select_related("user"))
    return {"drafts": found, "agents": recipients(workspace)} if found else None
