from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0010_run_closed_ports"),
    ]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="host_ports",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
