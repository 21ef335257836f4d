from allauth.account.decorators import secure_admin_login
from django.contrib import admin

from dashboard.models import Agent, Membership, Team, Token

# One door: the same rate limits and, later, the same second factor as everywhere.
admin.site.login = secure_admin_login(admin.site.login)

_app_list = admin.site.get_app_list


def retention_first(request, app_label=None):
    """What deletes things by itself is what an operator looks at first."""
    apps = sorted(_app_list(request, app_label), key=lambda app: app["app_label"] != "workspaces")
    for app in apps:
        app["models"].sort(key=lambda model: model["object_name"] != "RetentionPolicy")
    return apps


admin.site.get_app_list = retention_first


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin):
    list_display = ["name", "slug", "event_seq", "stopped_at"]
    inlines = [MembershipInline]
    readonly_fields = ["stopped_at", "stopped_by"]


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    list_display = ["name", "team", "owner", "paused_at", "last_seen_at"]
    list_filter = ["team"]


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):
    """Tokens are made where they can be shown once; here they are only looked at and revoked."""

    list_display = ["prefix", "team", "agent", "user", "created_at", "expires_at", "revoked_at", "last_used_at"]
    readonly_fields = ["prefix", "team", "agent", "user", "workspace", "scopes", "created_at", "last_used_at"]
    exclude = ["sha256"]

    def has_add_permission(self, request):
        return False
