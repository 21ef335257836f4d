"""Convert workspaces, runs, snapshots, commands, terminals and restores to the fields of their response schemas."""

from dashboard.problems import Problem
from workspaces.host import place
from workspaces.manifests.body import not_kept
from workspaces.models import Operation, Phase, Run, StateCode
from workspaces.programs import recordings
from workspaces.provisioning import isolation, source_history
from workspaces.services import watching


def workspace_out(workspace, busy: str | None, run: Run | None = None, agents: list[str] | None = None) -> dict:
    head, environment, away = workspace.head, workspace.environment, place.unreachable(workspace)
    return {
        "key": workspace.key,
        "team": workspace.team.slug,
        "description": workspace.description,
        "driver": environment.driver,
        "isolation": isolation.of(workspace),
        "environment": environment.name,
        "environment_version": environment.version,
        "source": {
            name: value for name, value in source_history.public_part(workspace.source).items() if name != "fork"
        },
        "state": StateCode.UNREACHABLE if away else workspace.state,
        "since": workspace.runner.heartbeat_at if away else None,
        "place": place.shown(workspace),
        "owed": workspace.owed or None,
        "reason": away or workspace.reason,
        "hook_problem": workspace.hook_problem,
        "reason_code": StateCode.UNREACHABLE if away else workspace.reason_code,
        "unreachable_since": workspace.runner.heartbeat_at if away else None,
        "busy": busy,
        "labels": workspace.labels,
        "owner": workspace.owner.username if workspace.owner else None,
        "ticket": workspace.ticket,
        "ticket_url": workspace.ticket_link,
        "forked_from": workspace.forked_from.key if workspace.forked_from else None,
        "created_at": workspace.created_at,
        "last_active_at": workspace.last_active_at,
        "head_snapshot": head.number if head else None,
        "baseline_snapshot": workspace.baseline.number if workspace.baseline else None,
        "entries": head.entries if head else None,
        "bytes": head.bytes if head else None,
        **{name: getattr(workspace, name) for name in ("proof", "alarm", "missing_snapshot", "awake_until", "vitals")},
        "watching": watching.shown(workspace),
        "agents": agents,
        "run": run and run_out(run),
        "in_trash_until": workspace.purge_at if workspace.trashed_at else None,
        "url": f"/w/{workspace.team.slug}/{workspace.key}/",
    }


def run_out(run: Run) -> dict:
    names = ("started_at", "ready_at", "first_useful_at", "ended_at", "end_reason", "end_code", "cold", "setup_seconds")
    return {name: getattr(run, name) for name in names} | {"useful_after_s": run.useful_after_s}


def snapshot_out(snapshot) -> dict:
    return {
        "number": snapshot.number,
        "tree": snapshot.tree_hex,
        "kind": snapshot.kind,
        "label": snapshot.label,
        "entries": snapshot.entries,
        "bytes": snapshot.bytes,
        "added_bytes": snapshot.added_bytes,
        "looked_at": snapshot.looked_at or {"walked": snapshot.entries, "watched": 0},
        "skipped": len(snapshot.skipped),
        "not_kept": not_kept(snapshot.skipped),
        "pinned": snapshot.pinned,
        "created_at": snapshot.created_at,
        "in_trash_until": snapshot.drop_at,
    }


def command_out(command) -> dict:
    outcome = command.operation.outcome or {}
    return {
        "id": str(command.pk),
        "state": command.operation.phase,
        "command": command.shown,
        "cwd": command.cwd,
        "check": command.check_name or None,
        "exit_status": command.exit_status,
        "signal": command.signal,
        "reason": outcome.get("words")
        or outcome.get("reason")
        or place.waits_for(command.operation, command.workspace),
        "output_bytes": _output_bytes(command),
        "truncated": command.truncated,
        "envelope": command.envelope,
        "blocked": command.blocked,
        "created_at": command.created_at,
        "started_at": command.started_at,
        "ended_at": command.ended_at,
    }


def _output_bytes(command) -> int:
    """Return the bytes of its output, of one that runs those so far; 0 if its host alone knows them."""
    if command.operation.phase != Phase.STARTED:
        return command.output_bytes
    try:
        return recordings.of(command).length()
    except (Problem, OSError):
        return command.output_bytes


def terminal_out(terminal) -> dict:
    names = ("argv", "cols", "rows", "exit_status", "created_at", "ended_at")
    return {
        "id": str(terminal.pk),
        "state": terminal.operation.phase,
        "offset": terminal.first_offset,
        **{name: getattr(terminal, name) for name in names},
        "held": terminal.envelope is not None,
        "shared": terminal.shared,
    }


def restore_out(operation: Operation) -> dict:
    return {
        "operation": str(operation.pk),
        "safety_snapshot": operation.progress.get("safety_snapshot"),
        "snapshot": operation.args["number"],
        "state": operation.phase,
        "outcome": operation.outcome,
    }
