from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0011_pods")]

    operations = [
        migrations.AddField(
            "environment", "upstream", models.CharField(blank=True, db_default="", default="", max_length=40)
        ),
    ]
