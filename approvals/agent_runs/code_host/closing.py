"""The end of a task at its host: the workspace is archived, and the lesson in its notes is proposed."""

import re

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from approvals.agent_runs import attempts
from approvals.agent_runs.code_host import posting
from approvals.models import TaskAttempt, TaskEnd, TaskThread
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.code_hosts.threads import CLOSED, MERGED, Pull
from workspaces.models import Lesson, State
from workspaces.services.notes import lessons, versions

ENDS = {MERGED: TaskEnd.MERGED, CLOSED: TaskEnd.CLOSED}
BY = Actor.system("code host")
# pattern: a line of a file of at most texts.MAX_BYTES
HEADING = re.compile(r"#{1,6}[ \t]+\S.{0,200}")


def close(thread: TaskThread, pull: Pull | None):
    """End the task whose pull request was merged or closed, and put its workspace away, however often it is called."""
    if pull is not None and pull.state in ENDS:
        _end(thread, pull)
    thread.task.refresh_from_db(fields=["end"])
    if thread.task.end:
        _put_away(thread)


def _end(thread: TaskThread, pull: Pull):
    with Team.objects.turn(thread.team_id):
        thread.refresh_from_db(fields=["state"])
        thread.task.refresh_from_db(fields=["end"])
        if thread.state == pull.state:
            return
        thread.state, thread.changed_at = pull.state, clock.now()
        thread.save(update_fields=["state", "changed_at"])
        if not thread.task.end:
            by = Actor.system(f"code host, {pull.by.login}"[:200]) if pull.by else BY
            attempts.end(thread.task, ENDS[pull.state], by=by)
        posting.add(thread, f"end:{pull.state}", "Merged." if pull.state == MERGED else "Closed without a merge.")


def _chosen(thread: TaskThread) -> TaskAttempt | None:
    rows = thread.task.attempts.select_related("workspace__environment", "workspace__team")
    return rows.filter(chosen=True).first()


def _put_away(thread: TaskThread):
    """Archive the workspace of the chosen attempt, and note when it is; a busy one is tried again."""
    attempt = _chosen(thread)
    if thread.archived_at is not None:
        return
    if attempt is not None and not attempt.workspace.trashed_at and attempt.workspace.state != State.ARCHIVED:
        try:
            with transaction.atomic():
                lifecycle.archive(attempt.workspace, by=BY)
        except Problem as problem:
            if attempt.workspace.environment.capabilities.own_folder or attempt.workspace.state == State.FAILED:
                thread.problem = problem.detail[:500]
            else:
                return
        else:
            return  # the operation is asked for; the next reading sees what became of it
    with transaction.atomic():
        # Only now: the notes are known as of the snapshot that the archiving took.
        if thread.state == MERGED and (lesson := _propose_lesson(thread)):
            where = f"{settings.HANDRAIL_DESK_URL}{reverse('lesson', args=[lesson.pk])}"
            posting.add(thread, "lesson", f"A lesson was proposed: {where}")
        thread.archived_at = clock.now()
        thread.save(update_fields=["archived_at", "problem"])


def _propose_lesson(thread: TaskThread) -> Lesson | None:
    """Propose what the notes of the chosen attempt have below a heading with *lesson*; None if there is nothing."""
    attempt = _chosen(thread)
    note = versions.newest(attempt.workspace) if attempt else None
    text = lesson_in(note.text) if note else ""
    if not text:
        return None
    try:
        with transaction.atomic():
            return lessons.propose(attempt.workspace, text, by=BY, note=note)
    except Problem as problem:
        thread.problem = problem.detail[:500]
        thread.save(update_fields=["problem"])
        return None


def lesson_in(notes: str) -> str:
    """Return the section below the first heading that has the word *lesson*, at most what a lesson may have."""
    taken: list[str] = []
    is_inside = False
    for line in notes.splitlines():
        if HEADING.fullmatch(line.strip()):
            if is_inside:
                break
            is_inside = "lesson" in line.lower()
        elif is_inside:
            taken.append(line)
    text = "\n".join(taken).strip()
    return text.encode()[: lessons.MAX_BYTES].decode("utf-8", "ignore")
