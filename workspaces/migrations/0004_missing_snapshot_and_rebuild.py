from django.db import migrations, models


def rename_rows(apps, schema_editor):
    apps.get_model("workspaces", "Operation").objects.filter(kind="renew").update(kind="rebuild")
    apps.get_model("workspaces", "Run").objects.filter(end_code="set_up_again").update(end_code="rebuilt")


def restore_rows(apps, schema_editor):
    apps.get_model("workspaces", "Operation").objects.filter(kind="rebuild").update(kind="renew")
    apps.get_model("workspaces", "Run").objects.filter(end_code="rebuilt").update(end_code="set_up_again")


class Migration(migrations.Migration):
    """Name a workspace's missing snapshot for what it is, and a rebuild as elsewhere."""

    dependencies = [("workspaces", "0003_contact_code")]

    operations = [
        migrations.RenameField("workspace", "owed", "missing_snapshot"),
        migrations.AlterField(
            model_name="run",
            name="end_code",
            field=models.CharField(
                blank=True,
                choices=[
                    ("paused", "paused"),
                    ("stopped", "stopped"),
                    ("trashed", "deleted"),
                    ("rebuilt", "rebuilt"),
                    ("not_started", "Could not be started."),
                    ("never_up", "It never started."),
                    ("runner_stopped", "The runner stopped while it was starting."),
                    ("restored", "The database was restored to a time before it."),
                    ("out_of_memory", "out of memory"),
                    ("host_restarted", "the host restarted"),
                    ("crashed", "its first process was killed or crashed"),
                    ("removed", "its container was removed by somebody else"),
                    ("unseen", "It had exited."),
                    ("lost", "nothing is left of what ran"),
                    ("unknown", "its driver cannot tell why"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunPython(rename_rows, restore_rows),
    ]
