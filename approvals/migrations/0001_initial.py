import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("dashboard", "0002_workspaces_and_triggers"),
        ("workspaces", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "verdict",
                    models.CharField(
                        choices=[("approve", "approve"), ("deny", "deny"), ("edit", "edit")], max_length=8
                    ),
                ),
                ("comment", models.TextField(blank=True)),
                ("at", models.DateTimeField()),
                ("assertion", models.JSONField(blank=True, null=True)),
                ("final", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Action",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("mode", models.CharField(choices=[("gate", "gate"), ("broker", "broker")], max_length=8)),
                ("tool", models.CharField(max_length=200)),
                ("title", models.CharField(max_length=300)),
                ("session", models.CharField(blank=True, max_length=200)),
                ("call_id", models.CharField(blank=True, max_length=200)),
                ("call_hash", models.CharField(max_length=64)),
                ("idempotency_key", models.CharField(blank=True, max_length=200, null=True)),
                ("body_hash", models.CharField(blank=True, max_length=64)),
                ("reasoning", models.TextField(blank=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("approved", "Approved"),
                            ("denied", "Denied"),
                            ("expired", "Expired"),
                            ("cancelled", "Cancelled"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("uncertain", "Uncertain"),
                        ],
                        default="pending",
                        max_length=12,
                    ),
                ),
                (
                    "tier",
                    models.CharField(
                        choices=[
                            ("low", "Low"),
                            ("medium", "Medium"),
                            ("high", "High"),
                            ("critical", "Critical"),
                            ("forbidden", "Forbidden"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "undo",
                    models.CharField(
                        choices=[("yes", "yes"), ("partly", "partly"), ("unknown", "unknown"), ("no", "no")],
                        max_length=8,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1)),
                ("digest", models.CharField(max_length=64)),
                ("quorum", models.PositiveSmallIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("hold_until", models.DateTimeField(blank=True, null=True)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("consume_by", models.DateTimeField(blank=True, null=True)),
                ("consumed_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("agent_seen_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="actions", to="dashboard.agent"
                    ),
                ),
                (
                    "operation",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="action",
                        to="workspaces.operation",
                    ),
                ),
                (
                    "snapshot_before",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="workspaces.snapshot",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="actions", to="dashboard.team"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="actions",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DecisionEvidence",
            fields=[
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="evidence",
                        serialize=False,
                        to="approvals.decision",
                    ),
                ),
                ("body", models.BinaryField()),
            ],
        ),
        migrations.AddField(
            model_name="decision",
            name="action",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="approvals.action"
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("rules", models.JSONField(default=list)),
                ("says", models.CharField(default="", max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("uses_left", models.PositiveIntegerField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="dashboard.agent",
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="dashboard.team"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="action",
            name="grant",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="actions",
                to="approvals.grant",
            ),
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("text", models.TextField()),
                ("sha256", models.CharField(max_length=64)),
                ("active", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "by",
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
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="policies",
                        to="workspaces.environment",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="policies", to="dashboard.team"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "policies",
            },
        ),
        migrations.AddField(
            model_name="action",
            name="policy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="approvals.policy",
            ),
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("canonical", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "tier",
                    models.CharField(
                        choices=[
                            ("low", "Low"),
                            ("medium", "Medium"),
                            ("high", "High"),
                            ("critical", "Critical"),
                            ("forbidden", "Forbidden"),
                        ],
                        max_length=12,
                    ),
                ),
                ("undo", models.CharField(default="no", max_length=8)),
                ("reasons", models.JSONField(default=list)),
                ("rule", models.CharField(blank=True, max_length=500)),
                ("commands", models.JSONField(default=list)),
                ("by", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                (
                    "action",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="revisions", to="approvals.action"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="decision",
            name="revision",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="approvals.revision"
            ),
        ),
        migrations.CreateModel(
            name="BoundFile",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=16)),
                ("path", models.TextField()),
                ("state", models.CharField(max_length=16)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("size", models.BigIntegerField(blank=True, null=True)),
                ("content", models.BinaryField(blank=True, null=True)),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="files", to="approvals.revision"
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(fields=["agent", "expires_at"], name="grant_by_agent"),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.UniqueConstraint(
                fields=("team", "environment", "number"), name="policy_number_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.UniqueConstraint(
                condition=models.Q(("active", True), ("environment", None)),
                fields=("team",),
                name="policy_one_active_team",
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.UniqueConstraint(
                condition=models.Q(("active", True), ("environment__isnull", False)),
                fields=("team", "environment"),
                name="policy_one_active_environment",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["team", "status", "expires_at"], name="action_by_status"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["team", "created_at"], name="action_by_time"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(fields=["workspace", "created_at"], name="action_by_workspace"),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("status", "pending")), fields=["workspace"], name="action_that_waits"
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.UniqueConstraint(fields=("team", "number"), name="action_number_once"),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.UniqueConstraint(fields=("agent", "idempotency_key"), name="action_idempotency_once"),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("status", "pending"), models.Q(("consumed_at", None), ("status", "approved")), _connector="OR"
                ),
                fields=("agent", "session", "call_hash"),
                name="action_one_live_call",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            "pending",
                            "approved",
                            "denied",
                            "expired",
                            "cancelled",
                            "running",
                            "succeeded",
                            "failed",
                            "uncertain",
                        ],
                    )
                ),
                name="action_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(("tier__in", ["low", "medium", "high", "critical", "forbidden"])),
                name="action_tier_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("action", "number"), name="revision_number_once"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(fields=("revision", "user"), name="decision_one_each"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("final", True)), fields=("action",), name="decision_one_final"
            ),
        ),
        migrations.AddConstraint(
            model_name="boundfile",
            constraint=models.UniqueConstraint(fields=("revision", "number"), name="bound_file_number_once"),
        ),
    ]
