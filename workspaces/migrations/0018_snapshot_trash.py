from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0017_retention_rules")]

    operations = [
        migrations.DeleteModel(name="RetentionPolicy"),
        migrations.AddField("snapshot", "trashed_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("snapshot", "drop_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddIndex(
            "snapshot",
            models.Index(condition=Q(("drop_at__isnull", False)), fields=["drop_at"], name="snapshot_by_drop"),
        ),
    ]
