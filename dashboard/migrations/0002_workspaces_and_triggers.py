import django.db.models.deletion
from django.db import migrations, models

from dashboard.event_log import triggers


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("dashboard", "0001_initial"),
        ("workspaces", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="workspace",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="workspaces.workspace",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("team", "user"), name="membership_once"),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["viewer", "reviewer", "lead", "admin"])), name="membership_role_known"
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["team", "subject_type", "subject_id", "seq"], name="event_by_subject"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["team", "workspace_id", "seq"], name="event_by_workspace"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["team", "at", "id"], name="event_by_time"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["team", "verb"], name="event_by_verb"),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(fields=("team", "seq"), name="event_seq_once"),
        ),
        migrations.AddConstraint(
            model_name="agent",
            constraint=models.UniqueConstraint(fields=("team", "name"), name="agent_name_once"),
        ),
        migrations.AddConstraint(
            model_name="token",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("agent", None), ("user__isnull", False)),
                    models.Q(("agent__isnull", False), ("user", None)),
                    _connector="OR",
                ),
                name="token_of_one",
            ),
        ),
        migrations.RunPython(
            lambda apps, schema_editor: triggers.install(schema_editor.connection),
            lambda apps, schema_editor: triggers.remove(schema_editor.connection),
        ),
    ]
