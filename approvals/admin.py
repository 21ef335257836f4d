"""Policies, actions and grants in the Django admin, read-only."""

from django.contrib import admin

from approvals.models import Action, Grant, Policy
from dashboard.admin import Shown


@admin.register(Policy)
class PolicyAdmin(Shown):
    list_display = ["number", "team", "environment", "active", "by", "created_at"]
    list_filter = ["team", "active"]


@admin.register(Action)
class ActionAdmin(Shown):
    list_display = ["__str__", "team", "title", "tier", "status", "agent", "workspace", "created_at"]
    list_filter = ["team", "status", "tier"]
    exclude = ["reasoning", "call_hash", "body_hash"]


@admin.register(Grant)
class GrantAdmin(Shown):
    list_display = ["says", "team", "agent", "workspace", "by", "expires_at", "uses_left", "revoked_at"]
    list_filter = ["team"]
