from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0009_run_forwarded"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="closed_ports",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
