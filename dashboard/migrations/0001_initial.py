import uuid

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from dashboard.database.first_migration import FirstMigration

REPLACED = """
0003_requires_passkey 0004_ticket_url 0005_event_by_workspace_time 0006_second_factor_and_archive
0007_backup_plan_and_banner 0008_indexes_of_pages 0009_single_sign_on
"""


class Migration(FirstMigration):
    replaces = [("dashboard", name) for name in REPLACED.split()]

    dependencies = [
        ("account", "0009_emailaddress_unique_primary_email"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
        ("mfa", "0003_authenticator_type_uniq"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
        ("usersessions", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Team",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("event_seq", models.BigIntegerField(default=0, editable=False)),
                ("event_head", models.CharField(default="0000000000000000000000000000000000000000000000000000000000000000", editable=False, max_length=64)),
                ("stopped_at", models.DateTimeField(blank=True, null=True)),
                ("stopped_by", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("allows_solo", models.BooleanField(default=True)),
                ("requires_passkey", models.BooleanField(default=False)),
                ("ticket_url", models.CharField(blank=True, max_length=300)),
                ("second_factor_for", models.CharField(blank=True, choices=[("", "Nobody"), ("leads", "Leads and admins"), ("everybody", "Everybody")], default="", max_length=16)),
                ("solo_closed_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to="dashboard.team")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to=settings.AUTH_USER_MODEL)),
                ("role", models.CharField(choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("lead", "Lead"), ("admin", "Admin")], max_length=16)),
                ("desk_seen_at", models.DateTimeField(blank=True, null=True)),
                ("confirmed_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "user"), name="membership_once"),
                    models.CheckConstraint(condition=models.Q(("role__in", ["viewer", "reviewer", "lead", "admin"])), name="membership_role_known"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="agents", to="dashboard.team")),
                ("name", models.CharField(max_length=80)),
                ("owner", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="agents", to=settings.AUTH_USER_MODEL)),
                ("paused_at", models.DateTimeField(blank=True, null=True)),
                ("last_seen_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("team", "name"), name="agent_name_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="sign_in_links", to=settings.AUTH_USER_MODEL)),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="BackupPlan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("active", models.BooleanField(default=True, help_text="Off: no backup is made, and none is missed.")),
                ("hour", models.PositiveSmallIntegerField(default=2, help_text="Hour of the day (UTC) from which it is made.", validators=[django.core.validators.MaxValueValidator(23)])),
                ("keep", models.PositiveSmallIntegerField(default=7, help_text="Number of backups to keep; older ones are deleted.", validators=[django.core.validators.MinValueValidator(1)])),
                ("begun_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("made_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("problem", models.TextField(blank=True, editable=False)),
                ("words", models.CharField(blank=True, editable=False, max_length=300)),
                ("late_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="IdentityProvider",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="On the sign-in page: Sign in with …", max_length=60)),
                ("issuer", models.CharField(help_text="The address before /.well-known/openid-configuration.", max_length=300)),
                ("client_id", models.CharField(max_length=300, verbose_name="client ID")),
                ("value", models.BinaryField(blank=True, null=True)),
                ("scopes", models.CharField(default="openid profile email", max_length=300)),
                ("groups_claim", models.CharField(default="groups", help_text="The claim with the groups; a dot leads into an object.", max_length=120)),
                ("username_claim", models.CharField(default="preferred_username", max_length=120)),
                ("second_factor_values", models.CharField(blank=True, help_text="Values of amr or acr that count as a second factor, such as mfa, otp.", max_length=300)),
                ("session_hours", models.PositiveSmallIntegerField(default=12, help_text="Hours until a person signs in again.", validators=[django.core.validators.MinValueValidator(1)])),
                ("only", models.BooleanField(default=False, verbose_name="passwords and passkeys off")),
                ("break_glass", models.ForeignKey(blank=True, help_text="The superuser whose password still signs in when passwords are off.", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("active", models.BooleanField(default=True)),
            ],
        ),
        migrations.CreateModel(
            name="GroupRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="rules", to="dashboard.identityprovider")),
                ("group", models.CharField(max_length=200)),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dashboard.team")),
                ("role", models.CharField(choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("lead", "Lead"), ("admin", "Admin")], max_length=16)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "group", "team"), name="group_role_once"),
                    models.CheckConstraint(condition=models.Q(("role__in", ["viewer", "reviewer", "lead", "admin"])), name="group_role_known"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Banner",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("text", models.CharField(max_length=300)),
                ("from_at", models.DateTimeField(verbose_name="from")),
                ("until_at", models.DateTimeField(verbose_name="until")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("until_at__gt", models.F("from_at"))), name="banner_ends_after_it_begins"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("team", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="events", to="dashboard.team")),
                ("seq", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("actor_type", models.CharField(max_length=16)),
                ("actor_id", models.CharField(max_length=64)),
                ("actor_label", models.CharField(max_length=200)),
                ("verb", models.CharField(max_length=64)),
                ("subject_type", models.CharField(max_length=32)),
                ("subject_id", models.CharField(max_length=64)),
                ("workspace_id", models.UUIDField(blank=True, null=True)),
                ("data", models.JSONField(default=dict)),
                ("prev", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ["team", "seq"],
                "indexes": [
                    models.Index(fields=["team", "subject_type", "subject_id", "seq"], name="event_by_subject"),
                    models.Index(fields=["team", "workspace_id", "seq"], name="event_by_workspace"),
                    models.Index(fields=["team", "at", "id"], name="event_by_time"),
                    models.Index(fields=["workspace_id", "verb", "at"], name="event_by_workspace_verb"),
                    models.Index(fields=["team", "verb"], name="event_by_verb"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("team", "seq"), name="event_seq_once"),
                ],
            },
        ),
    ]
