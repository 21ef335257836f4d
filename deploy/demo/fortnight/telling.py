"""Tell the story into the database and the store, with the product's own functions, at times in the past.

The team is one of its own, so that its log is chained in the order of its times and nothing of another team is touched.
Each call of an agent is one transaction: no sweep sees an action that has expired long ago and is not answered yet.
"""

import os
from contextlib import contextmanager, suppress
from datetime import timedelta
from random import Random

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.utils import timezone

from approvals.actions import gate, questions_to_agents
from approvals.actions.answer import Answer
from approvals.actions.transitions import SNAPSHOT_TIERS, actor_of
from approvals.broker import asked_snapshot
from approvals.evaluation.calls import Call
from approvals.models import Action, Status, Tier
from approvals.sessions import messages, prompts
from dashboard.database import clock
from dashboard.files.locks import is_locked
from dashboard.models import Actor, Agent, Membership, Role, Team
from dashboard.people.access import Caller, caller_of
from dashboard.people.provisioning import agent_of, person_in, team_by_slug
from dashboard.problems import Problem
from deploy.demo.fortnight import conversation, memory, programs, story
from deploy.demo.fortnight.pace import Pace
from workspaces import lifecycle, operations
from workspaces.egress.attempts import Attempt
from workspaces.host import paths
from workspaces.models import Environment, Runner, State, Workspace, WorkspaceLabel
from workspaces.runner import notes, snapshots
from workspaces.services import network

TEAM, DAYS, SEED = "demo", 14, 1864
CHECKS = {"tests": "python -m pytest -q", "lint": "ruff check ."}
FORKED_DAYS_AGO = 1
FIRST_HOUR, BUSY_HOURS = 8, 9  # of the working day, in the desk's zone


class Telling:
    """One telling of the story, from `days` days before `now` up to now."""

    def __init__(self, now, days: int | None = None):
        self.days = DAYS if days is None else days
        self.now, self.random = now, Random(SEED)
        self.at = now - timedelta(days=self.days)
        self.files: dict[str, dict[str, str]] = {}  # of each place, by key
        self.turns: dict[str, int] = {}
        self.pace = Pace()
        self.is_shared = connection.vendor == "sqlite" and is_locked(settings.HANDRAIL_HOME / "up.lock")

    def tell(self, say) -> None:
        """Make everything; `say` is told of each day."""
        self._people()
        self._places()
        for day in range(self.days, -1, -1):
            begin = self._morning(day)
            say(f"{begin:%A, %-d %B}")
            for place in self._at_work(begin):
                self._session(place)
            if day == min(FORKED_DAYS_AGO, self.days):
                self._forks()
        self._handing_over()
        self._waiting()

    # People and places -----------------------------------------------------------------------------------------------

    @transaction.atomic
    def _people(self):
        with clock.frozen_at(self.at):
            self.team = team_by_slug(TEAM)
            self.people = {name: person_in(self.team, name, role) for name, role in story.PEOPLE.items()}
            for name, owner in story.AGENTS.items():
                agent = agent_of(self.team, name)
                Agent.objects.filter(pk=agent.pk).update(owner=self.people.get(owner), created_at=self.at)
            others = Membership.objects.exclude(team=self.team).exclude(user__in=self.people.values())
            for user in get_user_model().objects.filter(memberships__in=others, is_active=True).distinct():
                person_in(self.team, user.username, Role.ADMIN)
            self.agents = {agent.name: agent for agent in Agent.objects.filter(team=self.team).select_related("team")}
            self.environment = Environment.objects.create(team=self.team, name="default", checks=CHECKS)

    def _places(self):
        runner = Runner.objects.order_by("host").first()
        self.workspaces = {}
        for place in story.PLACES:
            with self._moment(40), self._at_once():
                self.workspaces[place.key] = self._workspace(place, runner)

    def _workspace(self, place, runner) -> Workspace:
        made = self._row(place, runner, {"git": place.repository, "ref": "main"})
        by = Actor.agent(self.agents[place.agent])
        data = {"key": made.key, "driver": "sandbox", "environment": "default", "source": made.source}
        lifecycle.record(made, by, "workspace.created", data)
        self._begin(made, story.first_files(place), kind="setup", by=by)
        return made

    def _row(self, place, runner, source: dict, **fields) -> Workspace:
        highest = Workspace.objects.exclude(uid=None).order_by("-uid").values_list("uid", flat=True).first()
        made = Workspace.objects.create(
            team=self.team, key=place.key, description=place.description, environment=self.environment, runner=runner,
            state=State.STOPPED, labels=place.labels, source=source, uid=(highest or 1_000_000) + 1,
            created_by_agent=self.agents[place.agent], last_active_at=clock.now(), **fields,
        )  # fmt: skip
        Workspace.objects.filter(pk=made.pk).update(created_at=clock.now())
        WorkspaceLabel.objects.bulk_create(
            WorkspaceLabel(workspace=made, name=name, value=value) for name, value in place.labels.items()
        )
        return made

    def _begin(self, workspace, files: dict, *, kind: str, by: Actor):
        paths.make_folders(workspace)
        self.files[workspace.key], self.turns[workspace.key] = {}, 0
        self._write(workspace, files)
        self._snapshot(workspace, kind=kind, by=by)

    def _forks(self):
        """Make two forks of one place; all three go on with the same task, so that they can be seen side by side."""
        first = next(place for place in story.PLACES if place.key == story.FORKED)
        parent, turn = self.workspaces[first.key], self.turns[first.key]
        for place in story.forks_of(first):
            with self._moment(60), self._at_once():
                self.workspaces[place.key] = self._fork(place, parent, turn)
        for place in (first, *story.forks_of(first)):
            self._session(place)

    def _fork(self, place, parent, turn: int) -> Workspace:
        head = parent.snapshots.order_by("-number").first()
        came_from = {"workspace": parent.key, "snapshot": head.number, "id": str(head.pk), "git": place.repository}
        made = self._row(place, parent.runner, {"fork": came_from | {"origin": parent.source}}, forked_from=parent)
        by = Actor.agent(self.agents[place.agent])
        data = {"key": made.key, "from": parent.key, "snapshot": head.number, "environment": str(self.environment)}
        lifecycle.record(made, by, "workspace.forked", data)
        self._begin(made, self.files[parent.key], kind="fork", by=by)
        self.turns[made.key] = turn
        return made

    # Time ------------------------------------------------------------------------------------------------------------

    def _morning(self, days_ago: int):
        local = timezone.localtime(self.now) - timedelta(days=days_ago)
        return local.replace(hour=FIRST_HOUR, minute=0, second=0, microsecond=0)

    def _at_work(self, morning):
        """Yield the places at which agents work on that day, and move the time to each session's beginning."""
        share = 0.15 if morning.weekday() >= 5 else 0.75
        busy = [place for place in story.PLACES if self.random.random() < share]
        is_today = morning.date() == timezone.localtime(self.now).date()
        end = self.now if is_today else morning + timedelta(hours=BUSY_HOURS)
        begin = max(self.at, min(morning, end - timedelta(hours=2)))
        for number, place in enumerate(busy):
            self.at = max(self.at, begin + (end - begin) * number / len(busy))
            if self.at + timedelta(minutes=15) < end:
                yield place

    @contextmanager
    def _moment(self, seconds: float):
        """Let some time pass, and make everything in the block happen then."""
        self.at = min(self.now, self.at + timedelta(seconds=seconds, milliseconds=self.random.randrange(1000)))
        with clock.frozen_at(self.at):
            yield

    def _later(self, least: int, most: int):
        return self._moment(self.random.randint(least, most))

    @contextmanager
    def _at_once(self):
        """Write in one transaction, after leaving the database to the running product if it is due."""
        if self.is_shared and not connection.in_atomic_block:
            self.pace.leave_free()
        with self.pace.writing(), Team.objects.turn(self.team.pk):
            yield

    # An agent at work ------------------------------------------------------------------------------------------------

    def _session(self, place):
        workspace, agent = self.workspaces[place.key], self.agents[place.agent]
        turn = self.turns[place.key]
        self.turns[place.key] += 1
        task = story.task(place, turn, self.random, self.files[place.key])
        session = f"{place.key}-{turn + 1}"
        with self._later(20, 60), self._at_once():
            notes.give_lessons(workspace, snapshots.host_tree(workspace))
            prompts.save(agent, session, task.prompt, workspace)
            talk = conversation.begin(agent, session, workspace)
            talk.asked(task.prompt)
            talk.thought(story.thought_of(task))
        for step in task.steps:
            self._step(workspace, agent, session, step, talk)
        with self._later(2, 20), self._at_once():
            talk.said(story.last_words(task))
            talk.keep(ends=True)
        self._closing(place, workspace, agent, task)
        self._what_stays(place, workspace, agent, task, turn)

    def _step(self, workspace, agent, session: str, step, talk):
        caller = self._caller(agent)
        with self._at_once():
            with self._later(4, 25):
                call = Call(
                    step.tool, step.arguments, workspace=workspace, session=session, reasoning=step.says,
                    call_id=f"{session}-{self.random.getrandbits(32):08x}",
                )  # fmt: skip
                talk.called(step, call.call_id)
                action = self._submit(call, caller)
                Agent.objects.filter(pk=agent.pk).update(last_seen_at=clock.now())
            if action.status == Status.PENDING:
                self._answer(action, step, caller)
            if action.status == Status.APPROVED:
                self._run(workspace, action, step, caller)
            with self._later(0, 1):
                path = step.arguments.get("file_path", "").removeprefix("/workspace/")
                talk.returned(step, action, self.files[workspace.key].get(path) if step.tool == "Read" else None)

    def _caller(self, agent) -> Caller:
        return Caller(roles={self.team.pk: "agent"}, agent=agent)

    def _submit(self, call, caller) -> Action:
        """Submit a call; take the snapshot of its moment as the runner does, before that can claim the operation."""
        action = gate.submit(call, caller=caller)[0]
        if operation := action.asked_operation:
            by, label = operations.actor_of(operation), asked_snapshot.label_of(action)
            taken = self._snapshot(
                call.workspace, kind=asked_snapshot.SNAPSHOT_KIND, label=label, by=by, unless_same=True
            )
            outcome = {"ok": True, "snapshot": taken.number}
            programs.settle(operation, outcome)
            asked_snapshot.note(operation, outcome, by=by)
        return action

    def _answer(self, action, step, caller):
        """Have people answer: two of them if the action takes two; critical ones are denied."""
        how, comment = step.answer
        people = ["mia", "ben", "ruth"]
        self.random.shuffle(people)
        person = caller_of(self.people[people[0]])
        if how == "ask":
            asked, answered = self.random.choice(story.QUESTIONS)
            with self._later(10, 60):
                questions_to_agents.ask(action, caller=person, text=asked)
            with self._later(2, 9):
                questions_to_agents.answer(action, caller=caller, text=answered)
        verdict = "deny" if how == "deny" or action.tier == Tier.CRITICAL else "approve"
        with self._later(5, 150):
            gate.decide(action, Answer(verdict, action.digest, comment), caller=person)
            action.refresh_from_db()

    def _run(self, workspace, action, step, caller):
        """Use the approval as gate.consume does, with a snapshot before, and report how it ended."""
        by, before = actor_of(action), None
        with self._later(0, 1):
            if action.tier in SNAPSHOT_TIERS:
                before = self._snapshot(workspace, kind="action", label=gate.snapshot_label(action), by=by)
            gate.mark_running(action, action.digest, by=by, snapshot=before)
        with self._later(1, 12):
            self._write(workspace, step.files)
            status = Status.SUCCEEDED if step.exit_status == 0 else Status.FAILED
            details = {"exit_status": step.exit_status, "output_bytes": len(step.prints), "tail": step.prints}
            gate.report(action, status, caller=caller, details=details, blocked=step.blocked)

    def _closing(self, place, workspace, agent, task):
        """End a session: the checks run, hosts were reached, a person writes a message, the workspace is stopped."""
        feature = task.prompt.split()[1]
        with self._later(5, 20), self._at_once():
            by = Actor.person(self.people["mia"]) if self.random.random() < 0.5 else Actor.agent(agent)
            programs.ran_check(workspace, "tests", CHECKS["tests"], passes=task.passes, by=by)
            programs.ran_check(workspace, "lint", CHECKS["lint"], passes=True, by=by)
        with self._later(1, 5):
            self._reached(workspace)
        if self.random.random() < 0.25:
            with self._later(5, 20), self._at_once():
                programs.ran_terminal(workspace, feature, by=Actor.person(self.people["ruth"]))
        for name, person, text in story.MESSAGES:
            if name == place.agent and self.random.random() < 0.3:
                with self._later(5, 20), suppress(Problem):
                    messages.send(agent, session="", caller=caller_of(self.people[person]), text=text)
        with self._later(5, 20), self._at_once():
            self._snapshot(workspace, kind="end", by=Actor.system("Handrail"))
            lifecycle.record(workspace, Actor.agent(agent), "workspace.stopped", {"reason": "stopped"})
            Workspace.objects.filter(pk=workspace.pk).update(last_active_at=clock.now())

    def _what_stays(self, place, workspace, agent, task, turn: int):
        """Have the agent propose lessons, and keep files as an artifact after some of the tasks."""
        for lesson in story.LESSONS:
            if (lesson.key, lesson.turn) == (place.key, turn):
                with self._later(30, 300), self._at_once():
                    person = self.people[lesson.person]
                    memory.propose_and_decide(workspace, lesson, agent_caller=self._caller(agent), person=person)
        if turn % story.ARTIFACT_EACH == 0:
            by = Actor.agent(agent) if turn else Actor.person(self.people["mia"])
            with self._later(30, 90), self._at_once():
                memory.keep_artifact(workspace, *story.artifact_of(place, task), by=by)

    def _handing_over(self):
        """Have people add to the notes of a workspace at rest, and hand another one over."""
        (key, person, text), (handed, giver, taker, message) = story.EDITED_NOTES, story.HANDED_OVER
        with self._later(5, 20), self._at_once():
            memory.edit_notes(self.workspaces[key], text, person=self.people[person])
        with self._later(5, 20), self._at_once():
            memory.hand_over_to(self.workspaces[handed], taker, message, giver=self.people[giver])

    def _reached(self, workspace):
        host = self.random.choice(["pypi.example.org", "git.example.org", "rates.example.com"])
        attempt = Attempt(host, 443, "CONNECT", allowed=True, sent=self.random.randint(800, 4000))
        attempt.received = self.random.randint(4_000, 900_000)
        found = [attempt]
        if self.random.random() < 0.3:
            found.append(Attempt("tracker.example.net", 443, "CONNECT", block=network.NOT_LISTED))
        for each in found:
            network.count(workspace.pk, "agent", each, 1, clock.now())

    def _waiting(self):
        """Leave some calls of today that still need approval."""
        agents = {place.key: self.agents[place.agent] for place in story.PLACES}
        for key, command, says in story.WAITING:
            agent, place, session = agents[key], self.workspaces[key], f"{key}-now"
            step = story.Step("Bash", {"command": command}, says)
            call_id = f"{session}-{self.random.getrandbits(32):08x}"
            call = Call("Bash", step.arguments, workspace=place, session=session, reasoning=says, call_id=call_id)
            with self._at_once():
                talk = conversation.begin(agent, session, place)
                talk.asked(story.WAITING_PROMPT)
                talk.called(step, call_id)
                self._submit(call, self._caller(agent))
                talk.keep(ends=False)

    # Files -----------------------------------------------------------------------------------------------------------

    def _write(self, workspace, files: dict[str, str | None]):
        """Write files into the workspace's folder, as old as the moment that is told."""
        known, root, when = self.files[workspace.key], paths.tree_of(workspace), clock.now().timestamp()
        for name, content in files.items():
            path = root / name
            if content is None:
                path.unlink(missing_ok=True)
                known.pop(name, None)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            os.utime(path, (when, when))
            known[name] = content
        self._hand_over(workspace)

    def _hand_over(self, workspace):
        """Make the workspace's user the owner of its files, as the runner does where it is root."""
        if os.geteuid() != 0:
            return
        tree = paths.tree_of(workspace)
        for path in (tree, *tree.rglob("*")):
            os.chown(path, workspace.uid, workspace.uid)

    def _snapshot(self, workspace, *, kind: str, by: Actor, label: str = "", unless_same: bool = False):
        tree = snapshots.host_tree(workspace)
        tree.is_mapped = False  # we wrote it, not programs
        how = {"thorough": True, "unless_same": unless_same}
        return snapshots.take(workspace, tree, kind=kind, label=label, by=by, **how)


def is_told() -> bool:
    return Workspace.objects.filter(team__slug=TEAM).exists()


def has_other_data() -> bool:
    """Return whether the desk has workspaces or actions besides those of the story."""
    others = Team.objects.exclude(slug=TEAM)
    return others.filter(workspaces__isnull=False).exists() or others.filter(actions__isnull=False).exists()
