from django.db import migrations, models
from django.db.models import OuterRef, Subquery, Value
from django.db.models.functions import Coalesce


def fill(apps, schema_editor):
    """Give each action the rule of its current revision."""
    alias = schema_editor.connection.alias
    actions, revisions = (apps.get_model("approvals", name).objects.using(alias) for name in ("Action", "Revision"))
    current = revisions.filter(action=OuterRef("pk"), number=OuterRef("revision")).exclude(rule="")
    actions.update(rule=Coalesce(Subquery(current.values("rule")[:1]), Value("")))


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0028_mcp_tool"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="rule",
            field=models.CharField(blank=True, default="", max_length=500),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=True),
    ]
