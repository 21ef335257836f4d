"""What stays beyond a session of the fortnight: lessons of repositories, edited notes, artifacts, and a hand-over."""

from dashboard.models import Actor
from dashboard.people.access import caller_of
from deploy.demo.fortnight import programs, story
from workspaces.models import Artifact
from workspaces.runner.operations import promote
from workspaces.services import artifacts
from workspaces.services.notes import editing, hand_over, lessons, versions

ARTIFACT_DAYS = 30


def propose_and_decide(workspace, lesson: story.Lesson, *, agent_caller, person) -> None:
    """Have an agent propose a lesson out of its notes, and a person decide on it; some are left to decide."""
    note = versions.newest(workspace)
    made = lessons.propose(workspace, lesson.text, by=agent_caller.actor, days=lesson.days, note=note)
    by = Actor.person(person)
    if lesson.answer == "accept":
        lessons.accept(made, seen=lessons.seen_digest(made), by=by)
    elif lesson.answer == "decline":
        lessons.decline(made, by=by)


def edit_notes(workspace, text: str, *, person):
    """Have a person add to the notes of a workspace at rest; its next resume would write them into its files."""
    last = versions.newest(workspace)
    editing.edit(workspace, (last.text if last else "") + text, caller=caller_of(person))


def keep_artifact(workspace, name: str, paths: list[bytes], note: str, *, by: Actor) -> Artifact:
    """Keep files of the newest snapshot; in a transaction, so that the runner does not do it a second time."""
    days = ARTIFACT_DAYS if by.type == "agent" else None
    made, operation = artifacts.promote(workspace, name, paths, note=note, days=days, by=by)
    outcome = {"ok": True} | promote.put_together(workspace, operation.args)
    promote.save_outcome(workspace, operation.args, outcome, by=by)
    programs.settle(operation, outcome)
    return made


def hand_over_to(workspace, agent: str, message: str, *, giver):
    hand_over.hand_over(workspace, caller=caller_of(giver), agent=agent, message=message)
