import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0024_repeat_hash"),
        ("workspaces", "0033_plural_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="asked_snapshot",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="workspaces.snapshot",
            ),
        ),
        migrations.AddField(
            model_name="action",
            name="asked_operation",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="workspaces.operation",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("asked_snapshot__isnull", False)),
                fields=["asked_snapshot"],
                name="action_asked_snapshot",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("asked_operation__isnull", False)),
                fields=["asked_operation"],
                name="action_asked_operation",
            ),
        ),
    ]
