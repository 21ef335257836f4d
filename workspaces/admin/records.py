"""What workspaces leave behind, in the Django admin: read-only, with filters and search."""

from django.contrib import admin

from dashboard.admin import Shown
from workspaces.models import (
    Allowance,
    Command,
    Contact,
    HandedSecret,
    HostAuthority,
    JoinToken,
    Manifest,
    Operation,
    ProgramLead,
    Rehearsal,
    Run,
    RunLead,
    Runner,
    Screenshot,
    SecretFinding,
    SharedAgentProgram,
    Snapshot,
    StoreIdentity,
    StoreKey,
    Terminal,
    Workspace,
    WorkspaceLabel,
)

OF_TEAM = ("workspace__team", admin.RelatedOnlyFieldListFilter)


class OfWorkspace(Shown):
    """Rows that belong to a workspace."""

    team_path = "workspace__team"
    list_select_related = ["workspace"]
    list_filter = [OF_TEAM]
    search_fields = ["workspace__key"]


@admin.register(Workspace)
class WorkspaceAdmin(Shown):
    team_path = "team"
    list_display = ["key", "team", "environment", "state", "created_at", "last_active_at", "trashed_at"]
    list_select_related = ["team", "environment"]
    list_filter = [("team", admin.RelatedOnlyFieldListFilter), "state", ("trashed_at", admin.EmptyFieldListFilter)]
    search_fields = ["key", "description"]
    date_hierarchy = "created_at"


@admin.register(WorkspaceLabel)
class LabelAdmin(OfWorkspace):
    list_display = ["workspace", "name", "value"]
    search_fields = ["workspace__key", "name", "value"]


@admin.register(Run)
class RunAdmin(OfWorkspace):
    list_display = ["workspace", "started_at", "ready_at", "ended_at", "end_reason", "cold"]
    list_filter = [OF_TEAM, "cold"]
    date_hierarchy = "started_at"


@admin.register(RunLead)
class RunLeadAdmin(Shown):
    """Which Runs another host can take over; not with what."""

    team_path = "run__workspace__team"
    list_display = ["run"]
    list_select_related = ["run"]
    exclude = ["value"]


@admin.register(ProgramLead)
class ProgramLeadAdmin(Shown):
    """With which programs another host can go on; not how."""

    team_path = "run__workspace__team"
    list_display = ["operation", "run", "waits"]
    list_select_related = ["operation", "run"]
    exclude = ["value"]


@admin.register(Command)
class CommandAdmin(OfWorkspace):
    list_display = ["created_at", "workspace", "shown", "exit_status", "check_name", "output_bytes"]
    search_fields = ["workspace__key", "shown"]
    date_hierarchy = "created_at"
    exclude = ["env", "body_hash"]


@admin.register(Terminal)
class TerminalAdmin(OfWorkspace):
    list_display = ["created_at", "workspace", "ended_at", "exit_status", "bytes"]
    date_hierarchy = "created_at"


@admin.register(Screenshot)
class ScreenshotAdmin(Shown):
    team_path = "snapshot__workspace__team"
    list_display = ["snapshot", "kind", "width", "height", "bytes", "created_at"]
    list_select_related = ["snapshot__workspace"]
    list_filter = [("snapshot__workspace__team", admin.RelatedOnlyFieldListFilter), "kind"]
    search_fields = ["snapshot__workspace__key", "page"]
    date_hierarchy = "created_at"
    exclude = ["data"]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("data")


@admin.register(Snapshot)
class SnapshotAdmin(OfWorkspace):
    list_display = ["number", "workspace", "kind", "label", "pinned", "bytes", "created_at"]
    list_filter = [OF_TEAM, "kind", "pinned"]
    search_fields = ["workspace__key", "label"]
    date_hierarchy = "created_at"


@admin.register(Manifest)
class ManifestAdmin(Shown):
    team_path = "snapshot__workspace__team"
    list_display = ["snapshot", "run", "sha256"]
    list_select_related = ["snapshot__workspace", "run__workspace"]
    search_fields = ["snapshot__workspace__key", "run__workspace__key"]


@admin.register(Rehearsal)
class RehearsalAdmin(OfWorkspace):
    list_display = ["created_at", "workspace", "status", "exit_status", "change_count"]
    list_filter = [OF_TEAM, "status"]
    date_hierarchy = "created_at"


@admin.register(Operation)
class OperationAdmin(Shown):
    """The work of the runner. A row decides what runs, so that nothing here changes one."""

    list_display = ["created_at", "kind", "phase", "workspace", "team", "epoch", "settled_at"]
    list_select_related = ["workspace", "team"]
    list_filter = ["kind", "phase"]
    search_fields = ["workspace__key", "kind"]
    date_hierarchy = "created_at"


@admin.register(Runner)
class RunnerAdmin(Shown):
    list_display = ["host", "pid", "version", "heartbeat_at"]
    search_fields = ["host"]


@admin.register(Allowance)
class AllowanceAdmin(OfWorkspace):
    list_display = ["rule", "workspace", "phase", "scope", "created_at", "ended_at"]
    list_filter = [OF_TEAM, "phase", "scope"]
    search_fields = ["workspace__key", "rule"]
    date_hierarchy = "created_at"


@admin.register(Contact)
class ContactAdmin(OfWorkspace):
    list_display = ["host", "port", "workspace", "allowed", "count", "sent", "received", "last_at"]
    list_filter = [OF_TEAM, "allowed", "phase"]
    search_fields = ["workspace__key", "host"]
    date_hierarchy = "last_at"


@admin.register(HandedSecret)
class HandedSecretAdmin(OfWorkspace):
    """Which secrets a workspace was given; not their values."""

    list_display = ["name", "workspace", "scope", "handed_at"]
    search_fields = ["workspace__key", "name"]
    date_hierarchy = "handed_at"
    exclude = ["value"]


@admin.register(SecretFinding)
class SecretFindingAdmin(OfWorkspace):
    list_display = ["handed", "workspace", "path", "found_at", "kept_at"]
    list_select_related = ["workspace", "handed"]
    list_filter = [OF_TEAM, ("kept_at", admin.EmptyFieldListFilter)]
    date_hierarchy = "found_at"
    exclude = ["path_sha256"]


@admin.register(HostAuthority)
class HostAuthorityAdmin(Shown):
    list_display = ["installation", "made_at"]
    exclude = ["value"]


@admin.register(JoinToken)
class JoinTokenAdmin(Shown):
    list_display = ["host", "expires_at", "used_at"]
    exclude = ["sha256"]


@admin.register(SharedAgentProgram)
class SharedAgentProgramAdmin(Shown):
    list_display = ["named", "platform", "bytes", "created_at"]


@admin.register(StoreKey)
class StoreKeyAdmin(Shown):
    team_path = "team"
    list_display = ["team", "named", "created_at"]
    list_select_related = ["team"]
    exclude = ["value"]


@admin.register(StoreIdentity)
class StoreAdmin(Shown):
    team_path = "team"
    list_display = ["team", "store_id"]
    list_select_related = ["team"]
