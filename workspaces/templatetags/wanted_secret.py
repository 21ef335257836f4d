"""The link to the secret that an operation failed for: {% load wanted_secret %}."""

from urllib.parse import urlencode

from django import template
from django.urls import reverse

from workspaces.models import Operation, Scope, Secret

register = template.Library()


@register.inclusion_tag("workspaces/_wanted_secret.html")
def wanted_secret(head, outcome) -> dict:
    """Show a link to the secret named in an operation's outcome, or to a form that sets it, to those who may."""
    wanted, team = (outcome or {}).get("secret"), head.workspace.team_id
    if not wanted or not head.caller.can("manage_secrets", team):
        return {}
    rows = Secret.objects.filter(team=team, scope=Scope.CODE_HOST)
    found = rows.filter(name=wanted["name"], origin__in=["", wanted["origin"]]).first()
    if found:
        return {"name": found.name, "url": reverse("secret", args=[found.pk]), "is_set": True}
    filled = urlencode({"name": wanted["name"], "scope": Scope.CODE_HOST.value, "origin": wanted["origin"]})
    return {"name": wanted["name"], "url": f"{reverse('secret-new')}?{filled}"}


@register.inclusion_tag("workspaces/_wanted_secret.html")
def wanted_by_creation(head) -> dict:
    """Show the same for the operation that failed to create the workspace."""
    row = Operation.objects.filter(workspace=head.workspace, kind="create").order_by("-created_at").first()
    return wanted_secret(head, row and row.outcome)
