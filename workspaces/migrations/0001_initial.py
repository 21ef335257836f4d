import uuid

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("dashboard", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="HandedSecret",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("scope", models.CharField(choices=[("setup", "Setup"), ("agent", "Agent")], max_length=8)),
                ("version", models.UUIDField()),
                ("value", models.BinaryField()),
                ("handed_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Runner",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=120, unique=True)),
                ("boot_id", models.CharField(blank=True, max_length=64)),
                ("pid", models.IntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("version", models.CharField(blank=True, max_length=32)),
                ("unclear", models.JSONField(blank=True, default=list)),
                ("capabilities", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="StoreIdentity",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="store_identity",
                        serialize=False,
                        to="dashboard.team",
                    ),
                ),
                ("store_id", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Environment",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("version", models.PositiveIntegerField(default=1)),
                ("driver", models.CharField(default="sandbox", max_length=32)),
                ("image", models.CharField(blank=True, max_length=200)),
                ("repository", models.CharField(blank=True, max_length=500)),
                ("ref", models.CharField(blank=True, max_length=200)),
                ("setup", models.TextField(blank=True)),
                ("maintenance", models.TextField(blank=True)),
                ("checks", models.JSONField(blank=True, default=dict)),
                ("egress", models.JSONField(blank=True, default=dict)),
                ("limits", models.JSONField(blank=True, default=dict)),
                ("minimum_isolation", models.CharField(default="namespace", max_length=20)),
                ("services", models.JSONField(blank=True, default=dict)),
                ("secrets", models.JSONField(blank=True, default=dict)),
                ("agents", models.JSONField(blank=True, default=list)),
                ("idle_seconds", models.PositiveIntegerField(default=0)),
                ("stop_seconds", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="environments", to="dashboard.team"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RetentionPolicy",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "snapshot_days",
                    models.PositiveIntegerField(
                        blank=True,
                        default=90,
                        null=True,
                        validators=[
                            django.core.validators.MaxValueValidator(
                                36500, "At most 36,500 days (a hundred years); leave it empty to keep for ever."
                            )
                        ],
                    ),
                ),
                (
                    "keep_newest_snapshots",
                    models.PositiveIntegerField(
                        default=20, validators=[django.core.validators.MaxValueValidator(1000000)]
                    ),
                ),
                (
                    "home_days",
                    models.PositiveIntegerField(
                        blank=True,
                        default=30,
                        null=True,
                        validators=[
                            django.core.validators.MaxValueValidator(
                                36500, "At most 36,500 days (a hundred years); leave it empty to keep for ever."
                            )
                        ],
                    ),
                ),
                (
                    "output_days",
                    models.PositiveIntegerField(
                        blank=True,
                        default=90,
                        null=True,
                        validators=[
                            django.core.validators.MaxValueValidator(
                                36500, "At most 36,500 days (a hundred years); leave it empty to keep for ever."
                            )
                        ],
                    ),
                ),
                (
                    "unused_workspace_days",
                    models.PositiveIntegerField(
                        blank=True,
                        default=None,
                        null=True,
                        validators=[
                            django.core.validators.MaxValueValidator(
                                36500, "At most 36,500 days (a hundred years); leave it empty to keep for ever."
                            )
                        ],
                    ),
                ),
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="retention", to="dashboard.team"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "retention policies",
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("epoch", models.PositiveIntegerField(default=0)),
                ("owner", models.JSONField(default=dict)),
                ("started_at", models.DateTimeField()),
                ("ready_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("end_reason", models.CharField(blank=True, max_length=200)),
                (
                    "end_code",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("paused", "paused"),
                            ("stopped", "stopped"),
                            ("trashed", "deleted"),
                            ("set_up_again", "set up again"),
                            ("not_started", "Could not be started."),
                            ("never_up", "It never started."),
                            ("runner_stopped", "The runner stopped while it was starting."),
                            ("restored", "The database was put back to before it."),
                            ("out_of_memory", "out of memory"),
                            ("host_restarted", "the host restarted"),
                            ("crashed", "its first process was killed or crashed"),
                            ("removed", "its container was removed by somebody else"),
                            ("unseen", "It had exited."),
                            ("lost", "nothing is left of what ran"),
                            ("unknown", "its driver cannot tell why"),
                        ],
                        max_length=16,
                    ),
                ),
                ("cold", models.BooleanField(default=True)),
                ("setup_seconds", models.FloatField(blank=True, null=True)),
                ("first_useful_at", models.DateTimeField(blank=True, null=True)),
                ("proof_entries", models.PositiveIntegerField(blank=True, null=True)),
                ("proof_differ", models.PositiveIntegerField(blank=True, null=True)),
                ("network", models.CharField(blank=True, max_length=300)),
                (
                    "runner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="workspaces.runner"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=64)),
                ("args", models.JSONField(default=dict)),
                ("exclusive", models.BooleanField(default=False)),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("due", "Due"),
                            ("claimed", "Claimed"),
                            ("started", "Started"),
                            ("settled", "Settled"),
                            ("uncertain", "Uncertain"),
                        ],
                        default="due",
                        max_length=16,
                    ),
                ),
                ("epoch", models.PositiveIntegerField(default=0)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("due_at", models.DateTimeField()),
                ("progress", models.JSONField(default=dict)),
                ("outcome", models.JSONField(blank=True, null=True)),
                ("dedupe", models.CharField(blank=True, max_length=200, null=True, unique=True)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("settled_at", models.DateTimeField(blank=True, null=True)),
                (
                    "runner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="operations",
                        to="workspaces.runner",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("scope", models.CharField(choices=[("setup", "Setup"), ("agent", "Agent")], max_length=8)),
                ("value", models.BinaryField()),
                ("version", models.UUIDField(default=uuid.uuid4)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("set_at", models.DateTimeField(null=True)),
                ("set_by", models.JSONField(default=dict)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="secrets", to="dashboard.team"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Snapshot",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("tree", models.BinaryField(max_length=32)),
                ("kind", models.CharField(max_length=24)),
                ("label", models.CharField(blank=True, max_length=120)),
                ("entries", models.PositiveBigIntegerField()),
                ("bytes", models.PositiveBigIntegerField()),
                ("added_bytes", models.PositiveBigIntegerField()),
                ("skipped", models.JSONField(blank=True, default=list)),
                ("pinned", models.BooleanField(default=False)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="children",
                        to="workspaces.snapshot",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Manifest",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("body", models.JSONField()),
                ("sha256", models.CharField(max_length=64)),
                (
                    "run",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="manifest",
                        to="workspaces.run",
                    ),
                ),
                (
                    "snapshot",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="manifest",
                        to="workspaces.snapshot",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Upkeep",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "work",
                    models.CharField(
                        choices=[("check", "Check"), ("collect", "Free space"), ("repair", "Repair")], max_length=16
                    ),
                ),
                ("round", models.PositiveIntegerField(default=0)),
                ("full", models.BooleanField(default=False)),
                ("by", models.JSONField(default=dict)),
                ("progress", models.JSONField(default=dict)),
                ("outcome", models.JSONField(blank=True, null=True)),
                ("ok", models.BooleanField(null=True)),
                ("asked_at", models.DateTimeField()),
                ("noted_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="upkeep", to="dashboard.team"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "upkeep",
            },
        ),
        migrations.CreateModel(
            name="Workspace",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "key",
                    models.CharField(
                        max_length=64,
                        validators=[django.core.validators.RegexValidator("^[a-z0-9][a-z0-9._-]{0,63}\\Z")],
                    ),
                ),
                ("description", models.CharField(blank=True, max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("creating", "Creating"),
                            ("setting_up", "Setting Up"),
                            ("ready", "Ready"),
                            ("paused", "Paused"),
                            ("stopped", "Stopped"),
                            ("failed", "Failed"),
                        ],
                        default="creating",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                (
                    "reason_code",
                    models.CharField(
                        blank=True,
                        choices=[("unreachable", "Unreachable"), ("not_cleared", "Not Cleared")],
                        max_length=16,
                    ),
                ),
                ("labels", models.JSONField(blank=True, default=dict)),
                ("source", models.JSONField(blank=True, default=dict)),
                ("uid", models.PositiveIntegerField(blank=True, null=True, unique=True)),
                ("base", models.JSONField(blank=True, default=dict)),
                ("disk_generation", models.PositiveIntegerField(default=0)),
                ("next_snapshot", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_active_at", models.DateTimeField(blank=True, null=True)),
                ("awake_until", models.DateTimeField(blank=True, null=True)),
                ("owed", models.TextField(blank=True)),
                ("proof", models.JSONField(blank=True, default=dict)),
                ("alarm", models.JSONField(blank=True, default=dict)),
                ("vitals", models.JSONField(blank=True, default=dict)),
                ("hook_problem", models.TextField(blank=True)),
                ("hook_problem_at", models.DateTimeField(blank=True, null=True)),
                ("warned_at", models.DateTimeField(blank=True, null=True)),
                ("home_swept_at", models.DateTimeField(blank=True, null=True)),
                ("trashed_at", models.DateTimeField(blank=True, null=True)),
                ("purge_at", models.DateTimeField(blank=True, null=True)),
                ("purged_at", models.DateTimeField(blank=True, null=True)),
                (
                    "baseline",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="workspaces.snapshot",
                    ),
                ),
                (
                    "bound_agents",
                    models.ManyToManyField(blank=True, related_name="bound_workspaces", to="dashboard.agent"),
                ),
                (
                    "created_by_agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="created",
                        to="dashboard.agent",
                    ),
                ),
                (
                    "created_by_user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workspaces",
                        to="workspaces.environment",
                    ),
                ),
                (
                    "head",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="workspaces.snapshot",
                    ),
                ),
                (
                    "runner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workspaces",
                        to="workspaces.runner",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="workspaces", to="dashboard.team"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Terminal",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("argv", models.JSONField()),
                ("cols", models.PositiveSmallIntegerField(default=80)),
                ("rows", models.PositiveSmallIntegerField(default=24)),
                ("host_process", models.JSONField(default=dict)),
                ("first_offset", models.PositiveBigIntegerField(default=0)),
                ("bytes", models.PositiveBigIntegerField(default=0)),
                ("exit_status", models.IntegerField(blank=True, null=True)),
                ("opened_by", models.JSONField(default=dict)),
                ("swept_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "operation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="terminal", to="workspaces.operation"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="terminals",
                        to="workspaces.run",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="terminals", to="workspaces.workspace"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="snapshot",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="snapshots", to="workspaces.workspace"
            ),
        ),
        migrations.CreateModel(
            name="SecretFinding",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("path", models.TextField()),
                ("path_sha256", models.CharField(max_length=64)),
                ("found_at", models.DateTimeField()),
                ("kept_at", models.DateTimeField(blank=True, null=True)),
                ("kept_by", models.JSONField(blank=True, default=dict)),
                (
                    "handed",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="findings",
                        to="workspaces.handedsecret",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="secret_findings",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="run",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="workspaces.workspace"
            ),
        ),
        migrations.AddField(
            model_name="operation",
            name="workspace",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="operations",
                to="workspaces.workspace",
            ),
        ),
        migrations.AddField(
            model_name="handedsecret",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="handed_secrets", to="workspaces.workspace"
            ),
        ),
        migrations.CreateModel(
            name="Contact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("phase", models.CharField(max_length=16)),
                ("host", models.CharField(max_length=253)),
                ("port", models.PositiveIntegerField()),
                ("method", models.CharField(max_length=16)),
                ("allowed", models.BooleanField()),
                ("why", models.CharField(blank=True, max_length=200)),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("sent", models.PositiveBigIntegerField(default=0)),
                ("received", models.PositiveBigIntegerField(default=0)),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="contacts", to="workspaces.workspace"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Command",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("argv", models.JSONField()),
                ("shown", models.TextField()),
                ("cwd", models.TextField(default="/workspace")),
                ("env", models.JSONField(blank=True, default=dict)),
                ("check_name", models.CharField(blank=True, max_length=80)),
                ("service", models.CharField(blank=True, max_length=80)),
                ("timeout_s", models.PositiveIntegerField(default=3600)),
                ("exit_status", models.IntegerField(blank=True, null=True)),
                ("signal", models.IntegerField(blank=True, null=True)),
                ("output_bytes", models.PositiveBigIntegerField(default=0)),
                ("truncated", models.BooleanField(default=False)),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                ("swept_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("idempotency_key", models.CharField(blank=True, max_length=200, null=True)),
                ("body_hash", models.CharField(blank=True, max_length=64)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "operation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="command", to="workspaces.operation"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="commands",
                        to="workspaces.run",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="commands", to="workspaces.workspace"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Allowance",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("rule", models.CharField(max_length=300)),
                ("phase", models.CharField(default="agent", max_length=16)),
                ("scope", models.CharField(max_length=16)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allowances",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkspaceLabel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                ("value", models.CharField(max_length=200)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="label_rows",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.UniqueConstraint(fields=("team", "name", "version"), name="environment_version_once"),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(fields=("team", "name", "scope"), name="secret_name_once"),
        ),
        migrations.AddConstraint(
            model_name="manifest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("run__isnull", False), ("snapshot", None)),
                    models.Q(("run", None), ("snapshot__isnull", False)),
                    _connector="OR",
                ),
                name="manifest_of_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="upkeep",
            constraint=models.UniqueConstraint(fields=("team", "work"), name="upkeep_one_of_each"),
        ),
        migrations.AddConstraint(
            model_name="upkeep",
            constraint=models.CheckConstraint(
                condition=models.Q(("work__in", ["check", "collect", "repair"])), name="upkeep_work_known"
            ),
        ),
        migrations.AddIndex(
            model_name="workspace",
            index=models.Index(fields=["team", "state"], name="workspace_by_state"),
        ),
        migrations.AddIndex(
            model_name="workspace",
            index=models.Index(fields=["purge_at"], name="workspace_by_purge"),
        ),
        migrations.AddConstraint(
            model_name="workspace",
            constraint=models.UniqueConstraint(
                condition=models.Q(("trashed_at", None)), fields=("team", "key"), name="workspace_key_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="workspace",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["creating", "setting_up", "ready", "paused", "stopped", "failed"])),
                name="workspace_state_known",
            ),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["tree"], name="snapshot_by_tree"),
        ),
        migrations.AddConstraint(
            model_name="snapshot",
            constraint=models.UniqueConstraint(fields=("workspace", "number"), name="snapshot_number_once"),
        ),
        migrations.AddConstraint(
            model_name="secretfinding",
            constraint=models.UniqueConstraint(fields=("handed", "path_sha256"), name="secret_found_once"),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)), fields=("workspace",), name="run_one_open"
            ),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(fields=["runner", "phase", "due_at"], name="operation_by_due"),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("phase__in", ["due", "claimed", "started"])),
                fields=["workspace"],
                name="operation_under_way",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(("phase__in", ["due", "claimed", "started", "settled", "uncertain"])),
                name="operation_phase_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("exclusive", True), ("phase__in", ["claimed", "started"])),
                fields=("workspace",),
                name="operation_one_exclusive",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("phase", "settled"), _negated=True), ("outcome__isnull", False), _connector="OR"
                ),
                name="operation_settled_has_outcome",
            ),
        ),
        migrations.AddConstraint(
            model_name="handedsecret",
            constraint=models.UniqueConstraint(fields=("workspace", "version"), name="secret_handed_once"),
        ),
        migrations.AddConstraint(
            model_name="contact",
            constraint=models.UniqueConstraint(
                fields=("workspace", "phase", "host", "port", "method", "allowed", "why"), name="contact_counted_once"
            ),
        ),
        migrations.AddIndex(
            model_name="command",
            index=models.Index(fields=["workspace", "created_at"], name="command_by_time"),
        ),
        migrations.AddIndex(
            model_name="command",
            index=models.Index(
                condition=models.Q(("check_name", ""), _negated=True),
                fields=["workspace", "check_name", "created_at"],
                name="command_by_check",
            ),
        ),
        migrations.AddConstraint(
            model_name="command",
            constraint=models.UniqueConstraint(
                fields=("workspace", "idempotency_key"), name="command_idempotency_once"
            ),
        ),
        migrations.AddIndex(
            model_name="allowance",
            index=models.Index(fields=["workspace", "ended_at"], name="allowance_open"),
        ),
        migrations.AddConstraint(
            model_name="allowance",
            constraint=models.CheckConstraint(
                condition=models.Q(("scope__in", ["once", "workspace", "environment"])), name="allowance_scope"
            ),
        ),
        migrations.AddIndex(
            model_name="workspacelabel",
            index=models.Index(fields=["name", "value"], name="label_by_value"),
        ),
        migrations.AddConstraint(
            model_name="workspacelabel",
            constraint=models.UniqueConstraint(fields=("workspace", "name"), name="label_once"),
        ),
    ]
