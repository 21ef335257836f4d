from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0011_workspace_host_ports"),
    ]

    operations = [
        migrations.AddField(model_name="environment", name="build", field=models.JSONField(blank=True, default=dict)),
        migrations.AddField(
            model_name="environment",
            name="maintenance_seconds",
            field=models.PositiveIntegerField(default=0, blank=True),
        ),
        migrations.AddField(
            model_name="environment", name="variables", field=models.JSONField(blank=True, default=dict)
        ),
        migrations.AddField(
            model_name="environment",
            name="working_directory",
            field=models.CharField(blank=True, max_length=500),
        ),
    ]
