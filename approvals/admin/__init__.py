"""Policies, actions, passkey challenges and grants in the Django admin, read-only."""

from django.contrib import admin

from approvals.admin import records  # noqa: F401 - registers the records
from approvals.models import Action, ApproverGroup, Grant, PasskeyChallenge, Policy, PolicyFile
from dashboard.admin import OF_TEAM, Shown


@admin.register(Policy)
class PolicyAdmin(Shown):
    list_display = ["number", "team", "environment", "active", "by", "created_at"]
    list_select_related = ["team", "environment", "by"]
    team_path = "team"
    list_filter = [OF_TEAM, "active"]
    search_fields = ["number", "by__username"]
    date_hierarchy = "created_at"


@admin.register(PolicyFile)
class PolicyFileAdmin(Shown):
    list_display = ["repository", "team", "sha256", "is_adopted", "adopted_by", "problem", "seen_at"]
    list_select_related = ["team", "adopted_by"]
    team_path = "team"
    list_filter = [OF_TEAM, "is_adopted"]
    search_fields = ["repository", "sha256"]
    date_hierarchy = "seen_at"


@admin.register(ApproverGroup)
class ApproverGroupAdmin(Shown):
    list_display = ["name", "team"]
    list_select_related = ["team"]
    team_path = "team"
    list_filter = [OF_TEAM]
    search_fields = ["name", "people__username"]


@admin.register(Action)
class ActionAdmin(Shown):
    list_display = ["__str__", "team", "title", "tier", "status", "agent", "workspace", "created_at"]
    list_select_related = ["team", "agent__owner", "workspace"]
    team_path = "team"
    list_filter = [OF_TEAM, "status", "tier", "tool"]
    search_fields = ["=number", "title", "agent__name", "workspace__key"]
    date_hierarchy = "created_at"
    exclude = ["reasoning", "call_hash", "body_hash"]


@admin.register(Grant)
class GrantAdmin(Shown):
    list_display = ["says", "team", "agent", "workspace", "by", "expires_at", "uses_left", "revoked_at"]
    list_select_related = ["team", "agent__owner", "workspace", "by"]
    team_path = "team"
    list_filter = [OF_TEAM, ("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["says", "agent__name", "by__username"]
    date_hierarchy = "expires_at"


@admin.register(PasskeyChallenge)
class PasskeyChallengeAdmin(Shown):
    list_display = ["user", "action", "verdict", "expires_at", "used_at"]
    team_path = "action__team"
    list_select_related = ["user", "action"]
    list_filter = ["verdict", ("used_at", admin.EmptyFieldListFilter)]
    search_fields = ["user__username"]
    date_hierarchy = "expires_at"
