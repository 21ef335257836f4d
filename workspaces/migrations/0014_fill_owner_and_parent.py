from django.db import migrations
from django.db.models import Exists, OuterRef


def fill(apps, schema_editor):
    """Set the owner to the person who made each workspace, or whose agent did, and the parent of each fork."""
    Workspace = apps.get_model("workspaces", "Workspace")
    Snapshot = apps.get_model("workspaces", "Snapshot")
    Membership = apps.get_model("dashboard", "Membership")
    for made_by in ("created_by_user", "created_by_agent__owner"):
        in_team = Membership.objects.filter(team=OuterRef("team"), user=OuterRef(made_by))
        rows = Workspace.objects.filter(Exists(in_team), owner=None, **{f"{made_by}__isnull": False})
        for pk, owner in list(rows.values_list("pk", made_by)):
            Workspace.objects.filter(pk=pk).update(owner=owner)
    for pk, source in list(Workspace.objects.values_list("pk", "source")):
        if "fork" in source:
            taken = Snapshot.objects.filter(pk=source["fork"]["id"]).values_list("workspace", flat=True).first()
            Workspace.objects.filter(pk=pk).update(forked_from=taken)


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0013_workspace_metadata")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
