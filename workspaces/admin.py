"""Retention, environments and secrets in the Django admin, by the rules of dashboard.admin."""

from django import forms
from django.contrib import admin

from dashboard.admin import Logged, Shown
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.models import Environment, RetentionPolicy, Secret
from workspaces.provisioning import isolation
from workspaces.services import environments, retention

RULES = ("snapshot_days", "keep_newest_snapshots", "home_days", "output_days", "unused_workspace_days")


class RetentionForm(forms.ModelForm):
    """Show first what the rules would delete; save them only when they are confirmed unchanged."""

    confirmed = forms.BooleanField(required=False, label="Yes, delete that")
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = RetentionPolicy
        fields = ("team", *RULES)
        help_texts = {
            "snapshot_days": "Days. Empty: forever. Pinned snapshots, the newest below, the first and the current one "
            "of each workspace are always kept.",
            "keep_newest_snapshots": "Number per workspace that is kept however old.",
            "home_days": "Days without use until the agent's home folder in a paused workspace is emptied: its "
            "sessions and caches. Files in /workspace are kept. Empty: never.",
            "output_days": "Days that command output and terminal recordings are kept; how they ended "
            "is kept. Empty: forever.",
            "unused_workspace_days": "Days without use until a paused workspace is moved to the trash, with a "
            "snapshot of everything. People are warned a week before (or halfway, if sooner) and can keep "
            "it. Empty: never. Connected folders are never moved.",
        }

    def clean(self):
        cleaned = super().clean()
        team = cleaned.get("team") or (None if self.instance._state.adding else self.instance.team)
        if self.errors or team is None:
            return cleaned
        policy = RetentionPolicy(team=team, **{name: cleaned[name] for name in RULES})
        try:
            policy.clean_fields(exclude=["team"])
        except forms.ValidationError:
            return cleaned  # the field shows the error
        found = retention.preview(policy)
        # The confirmation is for the rules that were shown, not for values typed afterwards.
        rules = ",".join(str(value) for value in (team.pk, *(cleaned[name] for name in RULES)))
        if found.deletes and not (cleaned.get("confirmed") and cleaned.get("seen") == rules):
            self.data = self.data.copy()
            self.data["seen"] = rules
            self.data.pop("confirmed", None)
            self.add_error("confirmed", f"{found} Tick this and save again to confirm.")
        return cleaned


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(Logged):
    list_display = ["team", "snapshot_days", "keep_newest_snapshots", "unused_workspace_days", "next_sweep"]
    list_select_related = ["team"]
    form = RetentionForm

    def get_readonly_fields(self, request, obj=None):
        return ["team"] if obj else []

    @admin.display(description="next sweep")
    def next_sweep(self, policy):
        return str(retention.preview(policy, measure=False)).replace("Saving this deletes", "Deletes")

    def record(self, by, obj, what, data):
        data = data | {name: getattr(obj, name) for name in RULES}
        Event.objects.record(obj.team, actor=by, verb="retention.saved", subject=obj.team, data=data)


class EnvironmentForm(forms.ModelForm):
    """All fields of an environment, with the checks of services.environments as form errors."""

    driver = forms.ChoiceField(choices=[(name, name) for name in isolation.ISOLATION])
    minimum_isolation = forms.ChoiceField(choices=[(level, level) for level in isolation.LEVELS])

    def clean(self):
        cleaned = super().clean()
        if not self.errors:
            try:
                environments.check(cleaned, None if self.instance._state.adding else self.instance)
                if self.instance._state.adding:
                    environments.must_be_free(cleaned["team"], cleaned["name"])
                else:
                    environments.must_be_newest(self.instance)
            except Problem as problem:
                raise forms.ValidationError(problem.detail) from problem
        return cleaned


@admin.register(Environment)
class EnvironmentAdmin(Logged):
    """Saving creates the next version: rows that workspaces were created from never change."""

    form = EnvironmentForm
    list_display = ["name", "version", "team", "driver", "image", "repository", "ref"]
    list_select_related = ["team"]
    list_filter = ["team", "driver"]
    exclude = ["version", "secrets", "agents"]  # edited on the environment's page, which checks the names
    writes_events = False  # environments.save does

    def get_readonly_fields(self, request, obj=None):
        return ["team", "name"] if obj else []

    def save_model(self, request, obj, form, change):
        base = Environment.objects.get(pk=obj.pk) if change else None
        # The form turns an empty JSON field into None, which the columns do not allow.
        fields = {
            name: Environment._meta.get_field(name).get_default() if value is None else value
            for name, value in form.cleaned_data.items()
            if name not in ("team", "name")
        }
        made = environments.save(obj.team, obj.name, fields, base=base, by=Actor.person(request.user))
        # The admin's message and log then name the new version, not the row that was opened.
        obj.pk, obj.version = made.pk, made.version
        obj._state.adding = False


@admin.register(Secret)
class SecretAdmin(Shown):
    """Secrets with their expiry. Values are set on the Secrets page; no field here holds one."""

    list_display = ["name", "scope", "team", "set_at", "expires_at"]
    list_select_related = ["team"]
    list_filter = ["team", "scope"]
    fields = readonly_fields = ["name", "scope", "team", "set_at", "expires_at"]

    def has_delete_permission(self, request, obj=None):
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request, obj):
        secrets.delete(obj, by=Actor.person(request.user))

    def delete_queryset(self, request, queryset):
        for secret in queryset:
            secrets.delete(secret, by=Actor.person(request.user))
