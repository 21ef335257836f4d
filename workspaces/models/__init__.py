"""Environments, workspaces, their runs, snapshots, commands and terminals, and the operations on them."""

from workspaces.models.agent_programs import SharedAgentProgram
from workspaces.models.artifacts import Artifact
from workspaces.models.at_work import AgentAtWork
from workspaces.models.authority import HostAuthority, JoinToken
from workspaces.models.checkpoints import Checkpoint
from workspaces.models.credentials import Credential
from workspaces.models.environments import AgentsTogether, Environment, Lfs, Storage, Submodules
from workspaces.models.hand_overs import HandOver
from workspaces.models.home_layers import HomeLayer
from workspaces.models.measures import Cap, CapMeasure, EgressDay, Prices
from workspaces.models.network import Allowance, Contact
from workspaces.models.notes import Lesson, LessonState, NoteVersion
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.operations import Operation, Phase, ReasonCode, RevisionHow
from workspaces.models.previews import Preview
from workspaces.models.programs import Command, Terminal
from workspaces.models.pull_requests import PullRequest
from workspaces.models.purges import PurgeReceipt
from workspaces.models.rehearsals import Rehearsal, RehearsalStatus
from workspaces.models.retention import Hold, RetentionRule, TeamRetention
from workspaces.models.reviews import SeenFile
from workspaces.models.runners import RUNNER_TIMEOUT, Runner
from workspaces.models.runs import EndCode, ProgramLead, Run, RunLead
from workspaces.models.schedules import (
    FAILING_STATES,
    OPEN_STATES,
    CatchUp,
    JobKind,
    Schedule,
    ScheduledRun,
    ScheduledState,
)
from workspaces.models.screenshots import Screenshot
from workspaces.models.secrets import CodeHostKind, HandedSecret, Scope, Secret, SecretFinding
from workspaces.models.snapshots import Manifest, Snapshot
from workspaces.models.storage import StoreIdentity, StoreKey, StoreTask
from workspaces.models.workspaces import KEY_PATTERN, SavedView, State, StateCode, Workspace, WorkspaceLabel

__all__ = [
    "FAILING_STATES",
    "KEY_PATTERN",
    "OPEN_STATES",
    "RUNNER_TIMEOUT",
    "AgentAtWork",
    "AgentsTogether",
    "Allowance",
    "Artifact",
    "Cap",
    "CapMeasure",
    "CatchUp",
    "Checkpoint",
    "CodeHostKind",
    "Command",
    "Contact",
    "Credential",
    "EgressDay",
    "EndCode",
    "Environment",
    "HandOver",
    "HandedSecret",
    "Hold",
    "HomeLayer",
    "HostAuthority",
    "JobKind",
    "JoinToken",
    "Lesson",
    "LessonState",
    "Lfs",
    "Manifest",
    "NoteVersion",
    "OfTeamQuerySet",
    "Operation",
    "Phase",
    "Preview",
    "Prices",
    "ProgramLead",
    "PullRequest",
    "PurgeReceipt",
    "ReasonCode",
    "Rehearsal",
    "RehearsalStatus",
    "RetentionRule",
    "RevisionHow",
    "Run",
    "RunLead",
    "Runner",
    "SavedView",
    "Schedule",
    "ScheduledRun",
    "ScheduledState",
    "Scope",
    "Screenshot",
    "Secret",
    "SecretFinding",
    "SeenFile",
    "SharedAgentProgram",
    "Snapshot",
    "State",
    "StateCode",
    "Storage",
    "StoreIdentity",
    "StoreKey",
    "StoreTask",
    "Submodules",
    "TeamRetention",
    "Terminal",
    "Workspace",
    "WorkspaceLabel",
]
