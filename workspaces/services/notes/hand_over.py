"""Hand a workspace over: its snapshot, manifest, notes and open questions, for the next agent or person."""

from django.conf import settings
from django.urls import reverse

from dashboard.database import clock
from dashboard.models import Actor, Agent, Team
from dashboard.people.access import Caller
from dashboard.problems import Problem, invalid, not_found, unavailable
from workspaces import extensions, lifecycle, operations
from workspaces.models import HandOver, Snapshot, State, Workspace
from workspaces.services import agent_bindings, metadata
from workspaces.services.notes import texts, versions

MAX_MESSAGE = 4 * 1024  # bytes
MAX_QUESTIONS = 50
STATES = (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED)
SNAPSHOT_SECONDS = 60.0


def hand_over(workspace, *, caller: Caller, agent: str = "", person: str = "", message: str = "") -> HandOver:
    """Record a hand-over to an agent of the team, which is bound to the workspace, or to a person, who is notified.

    A snapshot is taken first unless the newest one is up to date. Problem 422 for nobody or an unknown name, 409 for
    a workspace that cannot be handed over now, 503 if the snapshot could not be taken: then nothing is changed.
    """
    lifecycle.must_be(workspace, *STATES, what="handed over")
    recipient = _recipient(workspace, agent, person)
    data = texts.checked(message.strip(), MAX_MESSAGE)
    said = texts.stored(workspace, data, MAX_MESSAGE)
    snapshot = _snapshot(workspace, by=caller.actor)
    questions = open_questions(workspace)
    with Team.objects.turn(workspace.team_id):
        row = Workspace.objects.locked().get(pk=workspace.pk)
        if isinstance(recipient, Agent):
            to = Actor.agent(recipient)
            names = [*agent_bindings.bound(row), recipient.name]
            if recipient.pk != row.created_by_agent_id:
                agent_bindings.bind(row, names, by=caller.actor)
        else:
            to = Actor.person(recipient)
        made = HandOver.objects.create(
            workspace=row,
            snapshot=snapshot,
            snapshot_number=snapshot.number,
            manifest_sha256=snapshot.manifest.sha256 if hasattr(snapshot, "manifest") else "",
            note=versions.newest(row),
            questions=questions,
            message=said.text,
            redacted=said.redacted,
            to=to.as_json,
            by=caller.actor.as_json,
            created_at=clock.now(),
        )
        told = {"to": to.label, "type": to.type, "snapshot": snapshot.number, "questions": len(questions)}
        told |= {"notes": made.note.number} if made.note else {}
        lifecycle.record(row, caller.actor, "workspace.handed_over", told, subject=made)
        if not isinstance(recipient, Agent):
            _notify(recipient, row, made, caller.actor)
    return made


def _recipient(workspace, agent: str, person: str):
    """Return the Agent or the person with this name in the workspace's team. Problem 422."""
    if bool(agent) == bool(person):
        raise invalid("Name the agent or the person who goes on.")
    if "\0" in agent + person:
        raise invalid("A name can't contain a NUL character.")
    if agent:
        found = Agent.objects.filter(team=workspace.team_id, name=agent).first()
    else:
        found = metadata.people_of(workspace.team_id).filter(username=person).first()
    if found is None:
        raise invalid(f"There is no {'agent' if agent else 'person'} named {agent or person!r} in this team.")
    return found


def _snapshot(workspace, *, by: Actor) -> Snapshot:
    """Return the newest snapshot if nothing can have changed since, else one that is taken now."""
    workspace.refresh_from_db(fields=["state", "head", "missing_snapshot"])
    if workspace.state != State.READY and workspace.head_id and not workspace.missing_snapshot:
        return workspace.head
    asked = lifecycle.snapshot(workspace, by=by, label="hand-over")
    operation = operations.wait(asked, SNAPSHOT_SECONDS)
    if not operations.is_over(operation):
        raise unavailable("The snapshot takes longer than expected. Nothing was handed over; try again.")
    if not operation.outcome["ok"]:
        raise Problem(409, f"Nothing was handed over. {operation.outcome['reason']}")
    return Snapshot.objects.select_related("manifest").get(workspace=workspace, number=operation.outcome["snapshot"])


def open_questions(workspace) -> list[dict]:
    """Return what waits for an answer: [{kind, name, words, by, url}] of requests and questions of agents."""
    found = extensions.ports.open_questions(workspace)[:MAX_QUESTIONS]
    return [each | {"words": texts.without_secrets(workspace, each["words"])[0]} for each in found]


def _notify(person, workspace, made: HandOver, by: Actor):
    if str(person.pk) != by.id:
        path = reverse("hand-over", args=[workspace.team.slug, workspace.key, made.pk])
        words = f"{by.label} handed {workspace.key} over to you."[:150]
        extensions.ports.tell_person(person, f"{words}\n{settings.HANDRAIL_DESK_URL}{path}")


def find(workspace, pk) -> HandOver:
    """Return a hand-over of the workspace. Problem 404."""
    rows = HandOver.objects.select_related("snapshot__manifest", "note")
    made = rows.filter(workspace=workspace, pk=pk).first() if pk else None
    if made is None:
        raise not_found("hand-over")
    return made


def of_workspace(workspace):
    return HandOver.objects.filter(workspace=workspace).order_by("-created_at")


def recipients(workspace) -> list[tuple[str, str]]:
    """Return [(type, name)] of whom it can be handed to: agents of the team, then its people."""
    agents = Agent.objects.filter(team=workspace.team_id).order_by("name").values_list("name", flat=True)[:200]
    people = metadata.people_of(workspace.team_id).values_list("username", flat=True)[:200]
    return [*(("agent", name) for name in agents), *(("person", name) for name in people)]
