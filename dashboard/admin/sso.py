"""The identity provider in the Django admin: its settings, its client secret, and the roles that groups have."""

from allauth.socialaccount import admin as _registers  # noqa: F401 - what is unregistered below
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import get_user_model

from dashboard.admin import OfInstallation, Shown
from dashboard.models import Actor, GroupRole, IdentityProvider
from dashboard.net.oidc_settings import refused_issuer
from dashboard.people import sso

# Nothing is stored in the first two: the provider is our row, and tokens of the provider are not kept.
admin.site.unregister([SocialApp, SocialToken, SocialAccount])


@admin.register(SocialAccount)
class LinkedAccountAdmin(Shown):
    """Which person signs in with which account of the identity provider; a person removes the link on the page Me."""

    list_display = ["user", "subject", "issuer", "date_joined", "last_login"]
    list_select_related = ["user"]
    search_fields = ["user__username"]
    date_hierarchy = "last_login"
    fields = readonly_fields = ["user", "subject", "issuer", "date_joined", "last_login"]

    @admin.display
    def subject(self, obj) -> str:
        return obj.extra_data.get("sub", "")

    @admin.display
    def issuer(self, obj) -> str:
        return obj.extra_data.get("iss", "")


class ProviderForm(forms.ModelForm):
    secret = forms.CharField(
        label="client secret",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Stored encrypted and not shown again. Empty: the present one stays.",
    )

    class Meta:
        model = IdentityProvider
        fields = ["name", "issuer", "client_id", "scopes", "groups_claim", "username_claim", "second_factor_values"]
        fields += ["session_hours", "only", "break_glass", "active"]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["break_glass"].queryset = get_user_model().objects.filter(is_superuser=True, is_active=True)

    def clean_issuer(self) -> str:
        issuer = self.cleaned_data["issuer"].strip()
        if why := refused_issuer(issuer):
            raise forms.ValidationError(why)
        return issuer

    def clean(self):
        cleaned = super().clean()
        if cleaned.get("only") and (why := sso.why_not_break_glass(cleaned.get("break_glass"))):
            self.add_error("break_glass", why)
        return cleaned


class RuleInline(admin.TabularInline):
    model = GroupRole
    extra = 0


@admin.register(IdentityProvider)
class IdentityProviderAdmin(OfInstallation):
    """The provider that people sign in with; one of the environment replaces it."""

    form = ProviderForm
    list_display = ["name", "issuer", "only", "break_glass", "active"]
    list_select_related = ["break_glass"]
    inlines = [RuleInline]
    fieldsets = [
        (None, {"fields": ["name", "issuer", "client_id", "secret", "active"]}),
        ("Claims of the provider", {"fields": ["scopes", "groups_claim", "username_claim", "second_factor_values"]}),
        ("Signing in here", {"fields": ["session_hours", "only", "break_glass"]}),
    ]

    def has_add_permission(self, request):
        return super().has_add_permission(request) and not IdentityProvider.objects.exists()

    def changeform_view(self, request, *args, **kwargs):
        if settings.HANDRAIL_OIDC["issuer"]:
            messages.warning(
                request, "HANDRAIL_OIDC_ISSUER is set: the settings of the environment are in force, not this form."
            )
        return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request, obj, form, change):
        sso.save(obj, form.cleaned_data["secret"])

    def save_formset(self, request, form, formset, change):
        before = set(GroupRole.objects.filter(provider=form.instance).values_list("group", "team", "role"))
        teams = {rule.team for rule in GroupRole.objects.filter(provider=form.instance).select_related("team")}
        formset.save()
        rules = list(GroupRole.objects.filter(provider=form.instance).select_related("team"))
        after = {(rule.group, rule.team_id, rule.role) for rule in rules}
        changed = {team_id for _, team_id, _ in before ^ after}
        touched = {team for team in teams | {rule.team for rule in rules} if team.pk in changed}
        sso.record_rules(form.instance, touched, by=Actor.person(request.user))
