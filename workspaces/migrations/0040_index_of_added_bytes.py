from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0039_repository_files"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="snapshot", name="snapshot_by_time"),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["created_at", "workspace", "added_bytes"], name="snapshot_by_time"),
        ),
    ]
