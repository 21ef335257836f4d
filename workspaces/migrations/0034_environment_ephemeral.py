from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0033_plural_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="environment",
            name="ephemeral",
            field=models.BooleanField(default=False),
        ),
    ]
