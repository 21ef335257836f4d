"""Follow the threads of tasks: keep new comments, carry out what was asked, post, mend, end.

`step` compares what the host says with rows and may be called at any time, twice, or late: a kill between two of its
steps leaves what the next reading continues.
"""

import logging
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from approvals.agent_runs import attempts
from approvals.agent_runs.code_host import accounts, closing, commands, connecting, mending, posting
from approvals.agent_runs.code_host.connecting import Unread
from approvals.models import EntryKind, Task, TaskAttempt, TaskThread, ThreadEntry, ThreadPost
from dashboard.database import clock
from dashboard.models import Team
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from workspaces import code_hosts
from workspaces.code_hosts import CodeHost, threads
from workspaces.code_hosts.threads import Check, Comment, Pull
from workspaces.models import PullRequest

logger = logging.getLogger("handrail.queue")
SOON, LATER = timedelta(seconds=30), timedelta(minutes=5)  # between two readings of a thread
LIVELY = timedelta(hours=2)  # after the last change, in which it is read soon
MAX_COMMENTS = 1000  # that one reading takes
MOST = 10  # threads that one step follows, as its time is limited


@dataclass
class Reading:
    """What one reading of a thread found."""

    comments: list[Comment] = field(default_factory=list)
    reviews: list[Comment] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    pull: Pull | None = None


def unthreaded():
    """Return the open tasks whose chosen attempt has a pull request, and that have no thread yet."""
    opened = PullRequest.objects.filter(workspace=OuterRef("workspace"))
    chosen = TaskAttempt.objects.filter(Exists(opened), task=OuterRef("pk"), chosen=True)
    return Task.objects.filter(Exists(chosen), end="", thread=None)


def step() -> int:
    """Follow the threads that are due; return at how many was looked."""
    now = clock.now()
    for task in unthreaded():
        TaskThread.objects.get_or_create(
            task=task, defaults={"team_id": task.team_id, "read_at": now, "changed_at": now}
        )
    rows = TaskThread.objects.due(now).select_related("team", "repository", "task__team", "pull", "follower")
    return sum(_claim_and_follow(thread) for thread in rows.order_by("read_at")[:MOST])


def _claim_and_follow(thread: TaskThread) -> bool:
    if not connecting.claim(thread, clock.now()):
        return False
    try:
        _follow(thread)
    except Exception:  # the others are followed; this one again once its claim is over
        logger.exception("the thread of the task %s could not be followed", thread.task_id)
    return True


def _follow(thread: TaskThread):
    before = thread.changed_at, thread.problem
    _note_pull(thread)
    address, kind = connecting.address_of(thread.task, thread.repository)
    try:
        reading = connecting.ask(thread.team, address, kind, lambda host: _read(host, thread))
        TaskThread.objects.filter(pk=thread.pk).exclude(problem="").update(problem="")
        thread.problem = ""
        _take(thread, reading, _origin(address))
        _post(thread, reading, address, kind)
    except Unread as error:
        fields = {"problem": str(error)[:500], "read_at": clock.now() + connecting.AFTER_A_PROBLEM}
    except Problem as refused:
        fields = {"problem": refused.detail[:500], "read_at": clock.now() + connecting.AFTER_A_PROBLEM}
    else:
        thread.refresh_from_db(fields=["changed_at", "archived_at", "problem"])
        is_over = thread.archived_at is not None and not thread.posts.filter(posted_at=None).exists()
        wait = SOON if thread.changed_at > clock.now() - LIVELY else LATER
        fields = {"read_at": None if is_over else clock.now() + wait}
    TaskThread.objects.filter(pk=thread.pk).update(**fields)
    thread.refresh_from_db(fields=["changed_at", "problem"])
    if (thread.changed_at, thread.problem) != before:  # pages that show it ask for it again
        attempts.record(thread.task, closing.BY, "task.thread_changed")


def _origin(address: str) -> str:
    repository = code_hosts.repository_of(address)
    return repository.base if repository else ""


def _note_pull(thread: TaskThread):
    """Note the pull request of the chosen attempt once there is one."""
    chosen = PullRequest.objects.filter(workspace__attempt__task=thread.task_id, workspace__attempt__chosen=True)
    newest = chosen.order_by("-opened_at").first()
    if newest is not None and newest.pk != thread.pull_id:
        thread.pull, thread.sha, thread.checks, thread.changed_at = newest, "", [], clock.now()
        thread.save(update_fields=["pull", "sha", "checks", "changed_at"])


async def _read(host: CodeHost, thread: TaskThread) -> Reading:
    found = Reading()
    if thread.number is not None:
        await _gather(found.comments, host.comments(thread.number, is_pull=False))
    if thread.pull is not None:
        found.pull = await host.pull(thread.pull.number)
        await _gather(found.comments, host.comments(thread.pull.number, is_pull=True))
        await _gather(found.reviews, host.reviews(thread.pull.number))
        await _gather(found.checks, host.checks(found.pull.sha))
    return found


async def _gather(into: list, rows):
    async for each in rows:
        into.append(each)
        if len(into) == MAX_COMMENTS:
            return


# Taking what was read -------------------------------------------------------------------------------------------------


def _take(thread: TaskThread, reading: Reading, origin: str):
    with Team.objects.turn(thread.team_id):
        known = set(ThreadEntry.objects.filter(thread=thread).values_list("key", flat=True))
        for comment in (*reading.comments, *reading.reviews):
            if comment.key not in known and not posting.is_ours(comment):
                _keep(thread, comment, origin)
        _take_pull(thread, reading)
    _carry_out(thread)
    closing.close(thread, reading.pull)
    if not thread.task.end:
        mending.mend(thread)


def _keep(thread: TaskThread, comment: Comment, origin: str):
    """Keep a comment once; what people of the team say on the pull request is for the agent."""
    caller = accounts.caller_for(thread.team_id, origin, comment.by)
    is_line = commands.parse(comment.text, posting.mention_of(thread)) is not None
    may = caller is not None and caller.can("decide", thread.team_id)
    ThreadEntry.objects.create(
        thread=thread,
        key=comment.key,
        kind=EntryKind.REVIEW if comment.path else EntryKind.COMMENT,
        author=comment.by.login,
        user=caller.user if caller else None,
        text=comment.text,
        path=comment.path,
        line=comment.line,
        url=comment.url[:500],
        at=comment.at or clock.now(),
        for_agent=comment.is_pull and may and not is_line and bool(comment.text.strip()),
    )
    thread.changed_at = clock.now()
    thread.save(update_fields=["changed_at"])


def _take_pull(thread: TaskThread, reading: Reading):
    """Note the state of the pull request and its checks; each that failed is for the agent, once for each commit."""
    if reading.pull is None:
        return
    checks = [{"name": each.name, "state": each.state, "url": each.url} for each in reading.checks]
    if (thread.sha, thread.checks) != (reading.pull.sha, checks):
        thread.sha, thread.checks, thread.changed_at = reading.pull.sha, checks, clock.now()
        thread.save(update_fields=["sha", "checks", "changed_at"])
    for each in reading.checks:
        if each.state == threads.FAILED:
            about = {"kind": EntryKind.CHECK, "author": each.name[:100], "text": each.summary, "url": each.url[:500]}
            about |= {"at": clock.now(), "for_agent": True}
            ThreadEntry.objects.get_or_create(thread=thread, key=f"{each.key}:{reading.pull.sha}"[:200], defaults=about)


def _carry_out(thread: TaskThread):
    """Do what lines to Handrail ask for, in their order. A kill in between does one again, which then says so."""
    rows = ThreadEntry.objects.filter(thread=thread, outcome="", user__isnull=False).exclude(kind=EntryKind.CHECK)
    for row in rows.select_related("user"):
        asked = commands.parse(row.text, posting.mention_of(thread))
        if asked is None or asked.verb == commands.START:
            continue
        caller = caller_of(row.user).only_in(thread.team_id)
        outcome = commands.carry_out(asked, thread, caller=caller)
        with transaction.atomic():
            ThreadEntry.objects.filter(pk=row.pk).update(outcome=outcome[:300])
            posting.add(thread, f"answer:{row.key}", outcome)
        if asked.verb == commands.CHOOSE:
            mending.open_chosen(thread, caller)


# Writing --------------------------------------------------------------------------------------------------------------


def _post(thread: TaskThread, reading: Reading, address: str, kind: str):
    posting.plan(thread)
    place = posting.place_of(thread)
    rows = posting.unposted(thread, reading.comments)
    if place is None or not rows:
        return
    done: list[ThreadPost] = []
    try:
        connecting.ask(thread.team, address, kind, lambda host: posting.post(host, place, rows, done))
    finally:
        ThreadPost.objects.filter(pk__in=[row.pk for row in done]).update(posted_at=clock.now())
