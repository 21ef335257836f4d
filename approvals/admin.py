"""Policies, actions, passkey challenges and grants in the Django admin, read-only."""

from django.contrib import admin

from approvals.models import Action, Grant, PasskeyChallenge, Policy
from dashboard.admin import Shown


@admin.register(Policy)
class PolicyAdmin(Shown):
    list_display = ["number", "team", "environment", "active", "by", "created_at"]
    list_select_related = ["team", "environment", "by"]
    list_filter = ["team", "active"]


@admin.register(Action)
class ActionAdmin(Shown):
    list_display = ["__str__", "team", "title", "tier", "status", "agent", "workspace", "created_at"]
    list_select_related = ["team", "agent__owner", "workspace"]
    list_filter = ["team", "status", "tier"]
    exclude = ["reasoning", "call_hash", "body_hash"]


@admin.register(Grant)
class GrantAdmin(Shown):
    list_display = ["says", "team", "agent", "workspace", "by", "expires_at", "uses_left", "revoked_at"]
    list_select_related = ["team", "agent__owner", "workspace", "by"]
    list_filter = ["team"]


@admin.register(PasskeyChallenge)
class PasskeyChallengeAdmin(Shown):
    list_display = ["user", "action", "verdict", "expires_at", "used_at"]
    list_select_related = ["user", "action"]
