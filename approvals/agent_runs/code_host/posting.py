"""What Handrail writes into a thread: that work began, what asks, what came of a line, how it ended. Each once."""

from django.conf import settings
from django.urls import reverse

from approvals.agent_runs.code_host import commands
from approvals.models import Action, Status, TaskThread, ThreadPost
from dashboard.database import clock
from workspaces.code_hosts import CodeHost
from workspaces.code_hosts.threads import Comment
from workspaces.models import Phase
from workspaces.secrets.masking import masked
from workspaces.services import pull_requests
from workspaces.services.pull_requests import as_code

MARK = "<!-- handrail:{key} -->"  # in each comment of ours; not shown by the hosts


def is_ours(comment: Comment) -> bool:
    return "<!-- handrail:" in comment.text


def mention_of(thread: TaskThread) -> str:
    return thread.repository.mention if thread.repository else "@handrail"


def plan(thread: TaskThread):
    """Add the comments that the task as it is now gives rise to."""
    if thread.number is not None:
        count = thread.task.attempts.count()
        begun = "An attempt has begun" if count == 1 else f"{count} attempts have begun"
        add(thread, "begun", f"{begun}: {_link(reverse('task', args=[thread.task_id]))}")
    if thread.task.end:
        return
    places = thread.task.attempts.filter(thrown_at=None).values("workspace")
    for action in Action.objects.filter(workspace__in=places, status=Status.PENDING).select_related("workspace"):
        can = commands.can_be_answered(action)
        digest = action.digest if can else ""
        add(thread, commands.key_of(action, action.digest), _ask(thread, action, can), digest)
    for attempt in thread.task.attempts.filter(chosen=True).select_related("workspace"):
        asked = pull_requests.newest_asked(attempt.workspace)
        if asked and asked.phase in (Phase.SETTLED, Phase.UNCERTAIN) and not (asked.outcome or {}).get("ok"):
            what = "The new commits could not be pushed" if thread.pull else "The pull request could not be opened"
            add(thread, f"not-opened:{asked.pk}", f"{what}: {_link(reverse('task', args=[thread.task_id]))}")


def _ask(thread: TaskThread, action: Action, can_be_answered: bool) -> str:
    where = _link(reverse("action", args=[action.pk]))
    if not can_be_answered:
        return f"**{action} asks** ({action.tier}). It takes an answer in Handrail: {where}"
    mention, title = mention_of(thread), as_code(masked(action.title, action.workspace))
    return (
        f"**{action} asks** ({action.tier}, can be undone): {title}\n\n"
        f"To answer, begin a line with `{mention} approve {action}` or `{mention} deny {action}` and a reason. "
        f"All of it: {where}"
    )


def add(thread: TaskThread, key: str, text: str, digest: str = ""):
    about = {"text": text, "digest": digest, "created_at": clock.now()}
    ThreadPost.objects.get_or_create(thread=thread, key=key, defaults=about)


def _link(path: str) -> str:
    return f"{settings.HANDRAIL_DESK_URL}{path}"


def unposted(thread: TaskThread, comments: list[Comment]) -> list[ThreadPost]:
    """Return what is not written yet. What the thread has already is noted as written."""
    texts = "\n".join(comment.text for comment in comments if is_ours(comment))
    rows = list(thread.posts.filter(posted_at=None))
    there = [row for row in rows if _mark(row) in texts]
    ThreadPost.objects.filter(pk__in=[row.pk for row in there]).update(posted_at=clock.now())
    return [row for row in rows if row not in there]


async def post(host: CodeHost, place: tuple[int, bool], rows: list[ThreadPost], done: list[ThreadPost]):
    """Write rows at a place, (number, whether it is a pull request); `done` gets those that were."""
    for row in rows:
        await host.say(place[0], f"{row.text}\n\n{_mark(row)}", is_pull=place[1])
        done.append(row)


def _mark(row: ThreadPost) -> str:
    return MARK.format(key=row.pk)


def place_of(thread: TaskThread) -> tuple[int, bool] | None:
    """Return where the task is talked about: its issue, else its pull request."""
    if thread.number is not None:
        return thread.number, False
    return (thread.pull.number, True) if thread.pull else None
