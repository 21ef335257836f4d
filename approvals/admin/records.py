"""What asking and answering leave behind, in the Django admin: read-only, with filters and search."""

from django.contrib import admin

from approvals.models import (
    AapInstance,
    AapInstanceUpdate,
    ActionMessage,
    AgentMessage,
    BoundFile,
    CardViewer,
    Channel,
    Decision,
    DecisionEvidence,
    Delivery,
    Interrupt,
    LineComment,
    LogTarget,
    McpTool,
    Notice,
    NotificationSettings,
    PushSubscription,
    PushToken,
    Revision,
    SessionPrompt,
    Snooze,
    ToolSchema,
)
from dashboard.admin import Shown

OF_ACTIONS_TEAM = ("action__team", admin.RelatedOnlyFieldListFilter)
OF_AGENTS_TEAM = ("agent__team", admin.RelatedOnlyFieldListFilter)


@admin.register(Decision)
class DecisionAdmin(Shown):
    """Who decided what about which bytes; the signature of a passkey is checked by `manage.py verify_passkeys`."""

    team_path = "action__team"
    list_display = ["at", "action", "user", "verdict", "comment", "final"]
    list_select_related = ["action", "user"]
    list_filter = [OF_ACTIONS_TEAM, "verdict", "final"]
    search_fields = ["user__username", "comment"]
    date_hierarchy = "at"
    exclude = ["assertion"]


@admin.register(LineComment)
class LineCommentAdmin(Shown):
    """Comments on lines that were sent; a draft is its writer's alone."""

    team_path = "team"
    list_display = ["at", "user", "path", "line", "agent", "sent_at"]
    list_select_related = ["user", "agent"]
    list_filter = [("team", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["user__username", "path", "text"]
    date_hierarchy = "at"

    def get_queryset(self, request):
        return super().get_queryset(request).filter(sent_at__isnull=False)


@admin.register(DecisionEvidence)
class DecisionEvidenceAdmin(Shown):
    team_path = "decision__action__team"
    list_display = ["decision"]
    list_select_related = ["decision__user", "decision__action"]


@admin.register(Revision)
class RevisionAdmin(Shown):
    team_path = "action__team"
    list_display = ["created_at", "action", "number", "tier", "undo", "digest"]
    list_select_related = ["action"]
    list_filter = [OF_ACTIONS_TEAM, "tier"]
    search_fields = ["=digest"]
    date_hierarchy = "created_at"


@admin.register(BoundFile)
class BoundFileAdmin(Shown):
    team_path = "revision__action__team"
    list_display = ["path", "kind", "state", "size", "sha256"]
    list_filter = ["kind", "state"]
    search_fields = ["path", "=sha256"]
    exclude = ["content"]


@admin.register(ActionMessage)
class ActionMessageAdmin(Shown):
    team_path = "action__team"
    list_display = ["at", "action", "kind", "user", "heard_at"]
    list_select_related = ["action", "user"]
    list_filter = [OF_ACTIONS_TEAM, "kind"]
    search_fields = ["text", "user__username"]
    date_hierarchy = "at"


@admin.register(AgentMessage)
class AgentMessageAdmin(Shown):
    team_path = "agent__team"
    list_display = ["at", "agent", "session", "user", "given_at", "read_at"]
    list_select_related = ["agent__owner", "user"]
    list_filter = [OF_AGENTS_TEAM]
    search_fields = ["text", "agent__name", "user__username"]
    date_hierarchy = "at"


@admin.register(Interrupt)
class InterruptAdmin(Shown):
    team_path = "agent__team"
    list_display = ["at", "agent", "session", "user", "until", "heard_at", "lifted_at"]
    list_select_related = ["agent__owner", "user"]
    list_filter = [OF_AGENTS_TEAM]
    search_fields = ["reason", "agent__name", "user__username"]
    date_hierarchy = "at"


@admin.register(SessionPrompt)
class SessionPromptAdmin(Shown):
    team_path = "agent__team"
    list_display = ["at", "agent", "session"]
    list_select_related = ["agent__owner"]
    list_filter = [OF_AGENTS_TEAM]
    search_fields = ["agent__name", "session"]
    date_hierarchy = "at"


@admin.register(ToolSchema)
class ToolSchemaAdmin(Shown):
    team_path = "team"
    list_display = ["sha256", "team"]
    list_select_related = ["team"]
    list_filter = [("team", admin.RelatedOnlyFieldListFilter)]


@admin.register(McpTool)
class McpToolAdmin(Shown):
    """Definitions that count as known: a call of a tool that describes itself otherwise asks."""

    team_path = "team"
    list_display = ["tool", "team", "server", "sha256"]
    list_select_related = ["team"]
    list_filter = [("team", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["tool"]


@admin.register(NotificationSettings)
class NotificationSettingsAdmin(Shown):
    list_display = ["user", "on_duty", "only_critical", "is_private", "zone", "language"]
    list_select_related = ["user"]
    list_filter = ["on_duty", "only_critical", "language"]
    search_fields = ["user__username"]


@admin.register(PushSubscription)
class PushSubscriptionAdmin(Shown):
    """Devices; not the keys and addresses by which they are reached."""

    list_display = ["user", "user_agent", "created_at", "last_success_at", "failures"]
    list_select_related = ["user"]
    search_fields = ["user__username"]
    date_hierarchy = "created_at"
    exclude = ["endpoint", "endpoint_sha256", "p256dh", "auth", "session_key"]


@admin.register(Channel)
class ChannelAdmin(Shown):
    """Channels besides Web Push; not their addresses, which have credentials."""

    list_display = ["user", "label", "with_title", "created_at", "last_success_at", "failures"]
    list_select_related = ["user"]
    search_fields = ["user__username", "label"]
    date_hierarchy = "created_at"
    exclude = ["value"]


@admin.register(Notice)
class NoticeAdmin(Shown):
    team_path = "action__team"
    list_display = ["created_at", "action", "user", "seen_at", "escalated_at", "closed_at"]
    list_select_related = ["action", "user"]
    list_filter = [OF_ACTIONS_TEAM]
    search_fields = ["user__username"]
    date_hierarchy = "created_at"


@admin.register(Delivery)
class DeliveryAdmin(Shown):
    list_display = ["created_at", "user", "via", "kind", "failures", "sent_at", "problem"]
    list_select_related = ["user"]
    list_filter = ["kind", ("sent_at", admin.EmptyFieldListFilter)]
    search_fields = ["user__username", "via", "problem"]
    date_hierarchy = "created_at"
    exclude = ["receipt_sha256"]


@admin.register(PushToken)
class PushTokenAdmin(Shown):
    """Answers that a notification offered; neither their tokens nor the hashes of these."""

    list_display = ["delivery", "verdict", "expires_at", "used_at"]
    list_select_related = ["delivery__user"]
    list_filter = ["verdict", ("used_at", admin.EmptyFieldListFilter)]
    exclude = ["sha256", "session_key"]


@admin.register(LogTarget)
class LogTargetAdmin(Shown):
    """Where logs are sent; added, switched and removed on the page Log targets, not their signing keys."""

    team_path = "team"
    list_display = ["team", "kind", "address", "only_alerts", "active", "cursor", "failures", "problem"]
    list_select_related = ["team"]
    list_filter = [("team", admin.RelatedOnlyFieldListFilter), "kind", "active"]
    search_fields = ["address"]
    date_hierarchy = "created_at"
    exclude = ["value"]


@admin.register(AapInstance)
class AapInstanceAdmin(Shown):
    """Instances that agents registered over the Agent Approval Protocol, not their secrets."""

    team_path = "agent__team"
    list_display = ["agent", "name", "url", "ready_at", "deleted_at", "failures", "problem"]
    list_select_related = ["agent__owner"]
    list_filter = [OF_AGENTS_TEAM, ("deleted_at", admin.EmptyFieldListFilter)]
    search_fields = ["agent__name", "name", "url"]
    date_hierarchy = "created_at"
    exclude = ["value", "credential_sha256", "submission_sha256"]


@admin.register(AapInstanceUpdate)
class AapInstanceUpdateAdmin(Shown):
    team_path = "instance__agent__team"
    list_display = ["instance", "tried_at", "ready_at", "problem"]
    list_select_related = ["instance"]
    list_filter = [("ready_at", admin.EmptyFieldListFilter)]
    search_fields = ["instance__name"]
    date_hierarchy = "tried_at"
    exclude = ["submission_sha256"]


@admin.register(Snooze)
class SnoozeAdmin(Shown):
    team_path = "action__team"
    list_display = ["action", "user", "until"]
    list_select_related = ["action", "user"]
    search_fields = ["user__username"]
    date_hierarchy = "until"


@admin.register(CardViewer)
class CardViewerAdmin(Shown):
    team_path = "action__team"
    list_display = ["action", "user", "at"]
    list_select_related = ["action", "user"]
    search_fields = ["user__username"]
    date_hierarchy = "at"
