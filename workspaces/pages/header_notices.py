"""What a person should know or do about a workspace, on top of its pages."""

import re
from datetime import datetime
from functools import cached_property

from django.utils.translation import gettext

from dashboard.database import clock
from workspaces.lifecycle import agents_at_work
from workspaces.models import AgentsTogether, State, StateCode
from workspaces.programs.checks import services_of
from workspaces.secrets import open_findings
from workspaces.services import retention
from workspaces.services.environments.drift import Drift, drift_of
from workspaces.services.retention import holds


class Notices:
    """The part of `Head` that warns, and asks for an answer."""

    @cached_property
    def at_work(self) -> list[str]:
        """Agents that did something in it in the last minutes, where its environment wants that shown."""
        if self.workspace.trashed_at or self.workspace.environment.agents_together == AgentsTogether.ALLOW:
            return []
        return [agent.name for agent in agents_at_work.at_work(self.workspace, clock.now())]

    @property
    def is_one_at_a_time(self) -> bool:
        return self.workspace.environment.agents_together == AgentsTogether.ONE

    @cached_property
    def drift(self) -> Drift | None:
        settled = self.workspace.state in (State.READY, State.PAUSED, State.STOPPED)
        return drift_of(self.workspace) if settled and not self.workspace.trashed_at else None

    @property
    def faulty_files(self) -> list[str]:
        """Files that say how its repository is set up and could not be read in full."""
        return [] if self.workspace.trashed_at else [f["path"] for f in self.workspace.repository_files if f["errors"]]

    @property
    def suggesting_files(self) -> list[str]:
        """Files that say how its repository is set up, where its environment has no setup."""
        workspace = self.workspace
        if workspace.trashed_at or workspace.environment.setup or not self.may_rebuild or workspace.own_folder:
            return []
        return [file["path"] for file in workspace.repository_files if file["fields"]]

    @property
    def failing_services(self) -> list:
        """Its services that fail again and again."""
        if self.tab != "workspace" or self.workspace.state != State.READY or self.workspace.trashed_at:
            return []
        return [service for service in services_of(self.workspace) if service.fails_again]

    @property
    def owed(self) -> dict:
        """What a lost host has of it: {host, since, snapshot, found, key: one for the fork}; {} if nothing."""
        owed = self.workspace.owed
        if not owed or self.workspace.trashed_at:
            return {}
        since, key = datetime.fromisoformat(owed["since"]), f"{self.workspace.key[:50]}-{owed['host'][:12]}".lower()
        return owed | {"since": since, "key": re.sub(r"[^a-z0-9._-]", "-", key)}

    @property
    def may_move(self) -> bool:
        return self.caller.can("move_workspace", self.workspace.team_id)

    @property
    def silent(self) -> str:
        """A message if its host has no recent heartbeat: the page may be out of date. Else ""."""
        runner = self.workspace.runner
        if runner is None or runner.heartbeat_at is None or runner.is_alive:
            return ""
        return gettext("Its host %(host)s does not answer. Its files are unaffected.") % {"host": runner.host}

    @property
    def hook_problem(self) -> str:
        """Why the agent in this connected folder is not gated."""
        is_away = self.out_of_reach == StateCode.HELD_UP
        return "" if self.workspace.trashed_at or is_away else self.workspace.hook_problem

    @property
    def processes(self) -> dict:
        """{count, limit} of a workspace that is up and whose limit on processes and threads is reached, else {}."""
        is_up = self.workspace.state == State.READY and not self.workspace.trashed_at
        return self.workspace.vitals.get("processes", {}) if is_up else {}

    @property
    def alarm(self) -> dict:
        """The proof that found differences and was not answered yet, even if later proofs held; else {}."""
        proof = self.workspace.proof
        return self.workspace.alarm or (proof if proof.get("differ") and not proof.get("answered") else {})

    @property
    def can_be_held(self) -> bool:
        """Whether this is a connected folder that is up, whose calls a person may have held in a box or not."""
        workspace = self.workspace
        return (
            workspace.environment.capabilities.own_folder
            and workspace.state == State.READY
            and not workspace.trashed_at
        )

    @cached_property
    def findings(self) -> list:
        """Files whose secret values block snapshots; also shown to callers who may not manage secrets."""
        return list(open_findings(self.workspace)[:20])

    @cached_property
    def goes_at(self):
        """When it goes to the trash if nobody uses it; None if nobody was warned of that."""
        return retention.when_it_goes(self.workspace)

    @cached_property
    def holds(self):
        """The holds that keep the workspace or one of its snapshots from being deleted."""
        return holds.on_workspace(self.workspace)
