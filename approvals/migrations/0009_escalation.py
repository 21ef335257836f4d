from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0008_approver_groups"),
    ]

    operations = [
        migrations.AddField(
            model_name="action",
            name="escalate_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="action",
            name="escalated_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="action",
            name="escalates_to",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
