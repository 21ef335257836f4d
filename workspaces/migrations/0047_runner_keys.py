from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0046_runner_identity")]

    operations = [
        migrations.AddField(
            model_name="runner",
            name="keys",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
