"""The look for a way back under load: what was not bound in time is bound with it, and each look ends with words."""

import asyncio

import pytest

from approvals.actions import bound_files, way_back_search
from approvals.broker import way_back
from approvals.evidence.deletes import Place
from approvals.models import Action, Status, WayBackState
from dashboard.database import clock
from dashboard.models import Event
from dashboard.problems import unavailable
from tests.pages.conftest import runner  # noqa: F401
from workspaces import extensions
from workspaces.models import Operation, Workspace
from workspaces.provisioning.git import putting_back

SOURCE, BEFORE, COMMIT = "https://git.example.org/a/b", "4" * 40, "9" * 40


class Git:
    """Answers the questions about a push; the first `late` of them come too late."""

    def __init__(self, late: int):
        self.late = late

    def ask(self, place, what, question):
        if what != "git-push":
            raise unavailable("It is not asked here.")
        self.late -= 1
        if self.late >= 0:
            return {"error": "git did not answer in time.", "late": True}
        sent = {"to": "main", "ref": "refs/heads/main", "sha": COMMIT, "forced": False, "tracked": True, "lost": 0}
        sent |= {"count": 0, "base": BEFORE, "commits": [], "files": {"count": 0, "first": []}}
        told = {"remote": "origin", "known": True, "addresses": [SOURCE], "branch": "main", "sends": [sent]}
        return told | {"more": 0, "outside": ""}


@pytest.fixture
def pushes(ask, workspace, runner, monkeypatch):  # noqa: F811
    """`pushes(late=1)`: the action of a `git push origin main`, for which git answers late so many times."""
    monkeypatch.setitem(extensions.kinds, way_back_search.KIND, way_back.WayBack())
    monkeypatch.setattr(putting_back, "tips", lambda *args, **rest: {"refs/heads/main": BEFORE})
    Workspace.objects.filter(pk=workspace.pk).update(runner=runner.daemon.row, source={"git": SOURCE})

    async def reached(job, remote):
        return None, None  # nobody is asked: `tips` answers

    monkeypatch.setattr(way_back, "reached", reached)

    def submit(late: int) -> Action:
        git = Git(late)
        monkeypatch.setattr(Place, "ask", lambda place, what, question: git.ask(place, what, question))
        return ask(workspace=Workspace.objects.select_related("environment", "team").get(pk=workspace.pk))

    return submit


def now(action) -> Action:
    return Action.objects.select_related("way_back").get(pk=action.pk)


def states(action) -> list[str]:
    revision = action.revisions.get(number=action.revision)
    return [file.state for file in revision.files.order_by("number")]


def looks(runner):  # noqa: F811
    """Carry out the looks that are due, and those that they ask for."""
    Operation.objects.exclude(kind=way_back_search.KIND).delete()
    runner()
    Operation.objects.exclude(kind=way_back_search.KIND).delete()
    runner()


def test_a_commit_that_was_not_read_in_time_is_bound_before_the_decision(pushes, runner, bob, decide):  # noqa: F811
    action = pushes(late=1)
    assert states(now(action)) == [bound_files.NOT_READ]
    looks(runner)
    found = now(action)
    assert (found.status, found.revision, states(found)) == (Status.PENDING, 2, [bound_files.COMMIT])
    assert (found.undo, found.way_back.title) == ("outside", "puts main back to 4444444 if nobody pushed meanwhile")
    assert found.way_back.digest == found.digest
    assert found.revisions.get(number=2).all_reasons == found.revisions.get(number=1).all_reasons
    decide(found, by=bob)
    bound_files.verify(now(action))
    assert now(action).status == Status.APPROVED


def test_what_was_read_in_time_stays_as_it_was_shown(pushes, runner):  # noqa: F811
    action = pushes(late=0)
    looks(runner)
    assert (now(action).revision, now(action).undo) == (1, "outside")


def test_git_that_is_late_when_an_approval_is_used_leaves_the_approval(pushes, runner, bob, decide, monkeypatch):  # noqa: F811
    action = pushes(late=0)
    looks(runner)
    decide(now(action), by=bob)
    git = Git(late=9)
    monkeypatch.setattr(Place, "ask", lambda place, what, question: git.ask(place, what, question))
    with pytest.raises(Exception, match="can't be read now"):
        bound_files.verify(now(action))
    assert (now(action).status, now(action).revision) == (Status.APPROVED, 1)


def test_a_call_that_was_faster_than_the_look_says_so(pushes, runner, bob, decide):  # noqa: F811
    action = pushes(late=0)
    decide(action, by=bob)
    Action.objects.filter(pk=action.pk).update(status=Status.RUNNING, consumed_at=clock.now())
    looks(runner)
    found = now(action)
    assert (found.way_back.state, found.undo) == (WayBackState.NONE, "no")
    assert found.way_back.why_not == "It was carried out before Handrail had looked for a way back."
    assert Event.objects.filter(subject_id=str(action.pk), verb="action.way_back_missing").count() == 1


def test_a_look_that_takes_too_long_ends_with_words(pushes, runner, monkeypatch):  # noqa: F811
    async def forever(job, action):
        await asyncio.sleep(3600)

    monkeypatch.setattr(way_back, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(way_back, "_looked", forever)
    action = pushes(late=0)
    looks(runner)
    assert now(action).way_back.why_not == "Looking for a way back took too long."
