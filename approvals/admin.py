from django.contrib import admin

from approvals.models import Action, Grant, Policy


class Shown(admin.ModelAdmin):
    """To look at only: the gate moves actions, and a policy's next version is saved where its tests run."""

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
        return False


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
