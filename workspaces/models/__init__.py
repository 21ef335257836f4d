"""Environments, workspaces, their runs, snapshots, commands and terminals, and the operations on them."""

from workspaces.models.environments import FOLDER, Environment
from workspaces.models.network import Allowance, Contact
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.operations import Operation, Phase, ReasonCode
from workspaces.models.programs import Command, Terminal
from workspaces.models.rehearsals import Rehearsal, RehearsalStatus
from workspaces.models.runners import RUNNER_TIMEOUT, Runner
from workspaces.models.runs import EndCode, Run
from workspaces.models.secrets import HandedSecret, Scope, Secret, SecretFinding
from workspaces.models.snapshots import Manifest, Snapshot
from workspaces.models.storage import RetentionPolicy, StoreIdentity, StoreTask
from workspaces.models.workspaces import KEY_PATTERN, State, StateCode, Workspace, WorkspaceLabel

__all__ = [
    "FOLDER",
    "KEY_PATTERN",
    "RUNNER_TIMEOUT",
    "Allowance",
    "Command",
    "Contact",
    "EndCode",
    "Environment",
    "HandedSecret",
    "Manifest",
    "OfTeamQuerySet",
    "Operation",
    "Phase",
    "ReasonCode",
    "Rehearsal",
    "RehearsalStatus",
    "RetentionPolicy",
    "Run",
    "Runner",
    "Scope",
    "Secret",
    "SecretFinding",
    "Snapshot",
    "State",
    "StateCode",
    "StoreIdentity",
    "StoreTask",
    "Terminal",
    "Workspace",
    "WorkspaceLabel",
]
