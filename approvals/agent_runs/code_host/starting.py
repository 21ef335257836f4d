"""Read a repository that gives tasks: its issues with the label, and the mentions in new comments."""

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction

from approvals.agent_runs import attempts
from approvals.agent_runs.code_host import accounts, commands, connecting
from approvals.agent_runs.code_host.connecting import Unread
from approvals.agent_runs.requests import MAX_TASK
from approvals.models import HostedRepository, Task, TaskThread
from approvals.models.tasks import MAX_TITLE
from dashboard.database import clock
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.code_hosts import CodeHost
from workspaces.code_hosts.threads import Comment, Issue, Person

EVERY = timedelta(minutes=2)  # between two readings without a webhook
OVERLAP = timedelta(minutes=2)  # of two readings, as clocks differ
MAX_ISSUES = 100  # with the label, that one reading looks at
# pattern: of a text of at most threads.MAX_TEXT characters
UNSEEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass
class Wanted:
    """Tasks that somebody at the host asks for: (issue, who does)."""

    found: list[tuple[Issue, Person]] = field(default_factory=list)


def step() -> int:
    """Read the repositories that are due; return at how many was looked."""
    now = clock.now()
    rows = list(HostedRepository.objects.due(now).select_related("team").order_by("read_at"))
    return sum(_read(row) for row in rows if connecting.claim(row, now))


def _read(row: HostedRepository) -> bool:
    now = clock.now()
    known = set(Task.objects.filter(team=row.team, source__startswith=row.address).values_list("source", flat=True))
    try:
        wanted = connecting.ask(row.team, row.address, row.kind, lambda host: _wanted(host, row, known))
    except Unread as error:
        fields = {"problem": str(error)[:500], "read_at": now + connecting.AFTER_A_PROBLEM}
    else:
        problem = "; ".join(dict.fromkeys(filter(None, (_start(row, *each) for each in wanted.found))))
        wait = connecting.AFTER_A_PROBLEM if problem else EVERY
        fields = {"problem": problem[:500], "read_at": now + wait}
        fields |= {} if problem else {"read_to": now}
    HostedRepository.objects.filter(pk=row.pk).update(**fields)
    return True


async def _wanted(host: CodeHost, row: HostedRepository, known: set[str]) -> Wanted:
    wanted, looked_at = Wanted(), 0
    if row.label:
        async for issue in host.labelled(row.label):
            looked_at += 1
            if issue.url not in known and (by := await host.labeller(issue.number, row.label)):
                wanted.found.append((issue, by))
            if looked_at == MAX_ISSUES:
                break
    async for comment in host.new_comments(row.read_to - OVERLAP):
        if not comment.is_pull and _starts(comment, row):
            issue = await host.issue(comment.number)
            if issue.url not in known:
                wanted.found.append((issue, comment.by))
    return wanted


def _starts(comment: Comment, row: HostedRepository) -> bool:
    asked = commands.parse(comment.text, row.mention)
    return asked is not None and asked.verb == commands.START


def _start(row: HostedRepository, issue: Issue, by: Person) -> str:
    """Start the task of an issue if whoever asks for it may; return why it could not, "" otherwise."""
    caller = accounts.caller_for(row.team_id, row.origin, by)
    if caller is None or not caller.can("start_agents", row.team_id):
        return ""  # of others nothing is taken, and nothing is answered
    try:
        begin(row, issue, caller)
    except Problem as problem:
        return f"#{issue.number}: {problem.detail}"
    return ""


@transaction.atomic
def begin(row: HostedRepository, issue: Issue, caller: Caller) -> Task:
    """Make the task of an issue with its thread, once. Problem 403, 409, 422."""
    title = seen_text(issue.title)[:MAX_TITLE].strip() or f"Issue {issue.number}"
    text = seen_text(issue.text)[: MAX_TASK - MAX_TITLE - 2]
    wish = {"title": title, "text": text, "repository": f"{row.address}.git", "source": issue.url}
    wish |= {"environment": row.environment, "attempts": row.attempts or [{}], "budget": {"minutes": row.minutes}}
    task, _ = attempts.make(row.team, wish, caller=caller)
    about = {"team": row.team, "repository": row, "number": issue.number}
    now = clock.now()
    TaskThread.objects.get_or_create(task=task, defaults=about | {"read_at": now, "changed_at": now})
    return task


def seen_text(text: str) -> str:
    """Return the part of a text that people see at the host: no comments of HTML, no characters without a shape."""
    shown = UNSEEN.sub("", text)
    return "".join(each for each in shown if each == "\n" or each == "\t" or unicodedata.category(each)[0] != "C")
