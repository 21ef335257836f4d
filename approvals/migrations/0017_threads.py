"""Name what a thread at a code host has, and what Handrail writes there, by nouns."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0016_reviewers"),
    ]

    operations = [
        migrations.RenameModel(old_name="Heard", new_name="ThreadEntry"),
        migrations.RenameModel(old_name="Spoken", new_name="ThreadPost"),
        migrations.RenameField(model_name="threadpost", old_name="spoken_at", new_name="posted_at"),
        migrations.AlterModelOptions(
            name="threadentry", options={"ordering": ["pk"], "verbose_name_plural": "thread entries"}
        ),
        migrations.AlterModelOptions(name="threadpost", options={"ordering": ["created_at"]}),
        migrations.AlterField(
            model_name="threadentry",
            name="thread",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="entries", to="approvals.taskthread"
            ),
        ),
        migrations.AlterField(
            model_name="threadpost",
            name="thread",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="posts", to="approvals.taskthread"
            ),
        ),
        migrations.RemoveConstraint(model_name="threadentry", name="heard_once"),
        migrations.RemoveConstraint(model_name="threadpost", name="spoken_once"),
        migrations.AddConstraint(
            model_name="threadentry",
            constraint=models.UniqueConstraint(fields=("thread", "key"), name="thread_entry_once"),
        ),
        migrations.AddConstraint(
            model_name="threadpost",
            constraint=models.UniqueConstraint(fields=("thread", "key"), name="thread_post_once"),
        ),
    ]
