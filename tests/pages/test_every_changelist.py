"""The Django admin as a whole: each list costs the same for fifty rows, shows no secret, and breaks no invariant."""

import datetime
import itertools
import uuid

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection, models
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import dashboard.urls  # noqa: F401 - registers the models
from approvals.models import Decision, Revision
from dashboard.admin import Logged, Plain
from dashboard.models import Agent, Event, Membership, Role, Team, Token
from dashboard.people.tokens import make_token

pytestmark = pytest.mark.django_db
# All but retention, which has pages of its own there (test_retention_admin.py).
ADMINS = {model: shown for model, shown in admin.site._registry.items() if isinstance(shown, Logged)}
# Those with a list of their own; the rest is shown plainly (dashboard.admin.register_the_rest).
REGISTERED = sorted(
    (model for model, shown in ADMINS.items() if not isinstance(shown, Plain)), key=lambda model: model._meta.label
)
# The only models that a form of the admin changes: each by functions that check, and write an event.
CHANGED_HERE = {"auth.User", "dashboard.Agent", "dashboard.Team", "workspaces.Environment"}
CHANGED_HERE |= {"dashboard.BackupPlan", "dashboard.Banner", "dashboard.IdentityProvider", "workspaces.Cap"}
# Fields with a secret, a hash of one, or what proves a person's word: in no form, no list and no search.
NEVER_SHOWN = {
    "approvals.AapInstance": {"value", "credential_sha256", "submission_sha256"},
    "approvals.AapInstanceUpdate": {"submission_sha256"},
    "approvals.Channel": {"value"},
    "approvals.Decision": {"assertion"},
    "approvals.LogTarget": {"value"},
    "approvals.PushSubscription": {"endpoint", "p256dh", "auth", "session_key"},
    "approvals.PushToken": {"sha256", "session_key"},
    "dashboard.IdentityProvider": {"value"},
    "dashboard.SignInLink": {"sha256"},
    "dashboard.Token": {"sha256"},
    "mfa.Authenticator": {"data"},
    "usersessions.UserSession": {"session_key", "data"},
    "workspaces.HandedSecret": {"value"},
    "workspaces.ProgramLead": {"value"},
    "workspaces.RunLead": {"value"},
    "workspaces.Secret": {"value"},
}
numbers = itertools.count(1)


def make(model, *, deep=False, **given):
    """One more row with all that it refers to, so that a list which follows a reference for each row shows.

    `deep`: a row that another one refers to, which has only what it needs.
    """
    wanted = [field for field in model._meta.concrete_fields if _is_needed(field, deep)]
    fields = {field.name: _value(field, model) for field in wanted}
    return model.objects.create(**(fields | SPECIAL.get(model._meta.label, dict)() | given))


def _is_needed(field, deep) -> bool:
    if field.is_relation and not deep:
        return True
    return not (field.auto_created or field.null or field.has_default() or _is_automatic(field))


def _is_automatic(field) -> bool:
    return getattr(field, "auto_now_add", False) or getattr(field, "auto_now", False)


def _value(field, model):
    number = next(numbers)
    if field.is_relation:
        return None if field.related_model is model else make(field.related_model, deep=True)
    if field.choices:
        return next(value for value, _ in field.flatchoices if value)
    simple = {
        models.UUIDField: lambda: uuid.uuid4(),
        models.BooleanField: lambda: False,
        models.JSONField: lambda: {},
        models.BinaryField: lambda: b"%032d" % number,
        models.GenericIPAddressField: lambda: "192.0.2.1",
        models.DateTimeField: lambda: datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC),
    }
    for kind, of in simple.items():
        if isinstance(field, kind):
            return of()
    return number if isinstance(field, models.IntegerField) else f"x{number}"[: field.max_length or 40]


# What constraints want besides.
SPECIAL = {
    "approvals.Action": lambda: {"status": "pending", "tier": "high"},
    "approvals.PasskeyChallenge": lambda: {"verdict": "approve"},
    "approvals.ActionMessage": lambda: {"kind": "answer", "user": None},
    "approvals.LineComment": lambda: {"sent_at": datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)},
    "workspaces.Allowance": lambda: {"scope": "once"},
    "workspaces.Manifest": lambda: {"run": None},
    "workspaces.Operation": lambda: {"team": None},
    "dashboard.Banner": lambda: {"until_at": datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC)},
    "dashboard.BackupPlan": lambda: {"hour": 1},
    "dashboard.Token": lambda: {"user": None, "agent": make(Agent, deep=True)},
    "auth.User": lambda: {"username": f"person-{next(numbers)}"},
}


@pytest.fixture
def operator(browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


def address(model, page="changelist", *args) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def queries_of(client, model) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address(model)).status_code == 200, model._meta.label
    return len(caught)


@pytest.mark.parametrize("model", REGISTERED, ids=lambda model: model._meta.label)
def test_a_list_costs_the_same_for_fifty_rows(operator, model):
    make(model)
    operator.get(address(model))  # the first request of a session in a minute notes it
    few = queries_of(operator, model)
    for _ in range(49):
        make(model)
    assert (queries_of(operator, model) <= few, few < 25) == (True, True)


@pytest.mark.parametrize("model", REGISTERED, ids=lambda model: model._meta.label)
def test_a_row_opens_and_is_found(operator, model):
    row = make(model)
    assert operator.get(address(model, "change", row.pk)).status_code == 200
    assert operator.get(address(model), {"q": "x"}).status_code == 200


def test_every_model_of_ours_is_in_the_admin():
    from django.apps import apps

    ours = [m for app in ("dashboard", "workspaces", "approvals") for m in apps.get_app_config(app).get_models()]
    assert [model._meta.label for model in ours if model not in admin.site._registry] == []


def test_nothing_but_a_few_models_is_changed_here_and_nothing_is_deleted():
    request = RequestFactory().get("/")
    request.user = get_user_model()(is_superuser=True, is_staff=True, is_active=True)
    changed, added, deleted = set(), set(), set()
    for model, shown in ADMINS.items():
        label = model._meta.label
        changed |= {label} if shown.has_change_permission(request) else set()
        added |= {label} if shown.has_add_permission(request) else set()
        deleted |= {label} if shown.has_delete_permission(request) else set()
    assert (changed, added, deleted) == (CHANGED_HERE, CHANGED_HERE, {"workspaces.Cap", "workspaces.Secret"})


def test_no_field_with_a_secret_is_in_any_form_list_or_search():
    request = RequestFactory().get("/")
    request.user = get_user_model()(is_superuser=True, is_staff=True, is_active=True)
    for model, shown in ADMINS.items():
        never = NEVER_SHOWN.get(model._meta.label, set())
        searched = {name.lstrip("=^@").split("__")[0] for name in shown.search_fields}
        seen = {*shown.get_fields(request, model()), *shown.get_list_display(request), *searched}
        assert seen & never == set(), model._meta.label


def test_every_binary_or_hashed_field_was_thought_of():
    """A new column with an encrypted value or a hash of a secret has to be left out, or named here as harmless."""
    harmless = {"approvals.BoundFile.content", "approvals.DecisionEvidence.body", "approvals.Revision.canonical"}
    harmless |= {"workspaces.Snapshot.tree", "workspaces.Rehearsal.base", "workspaces.Rehearsal.tree"}
    harmless |= {"workspaces.Artifact.tree"}
    request = RequestFactory().get("/")
    request.user = get_user_model()(is_superuser=True, is_staff=True, is_active=True)
    found = set()
    for model, shown in ADMINS.items():
        names = {f.name for f in model._meta.concrete_fields if isinstance(f, models.BinaryField)}
        names &= set(shown.get_fields(request, model()))
        found |= {f"{model._meta.label}.{name}" for name in names}
    assert found <= harmless


@pytest.mark.parametrize("model", [Event, Decision, Revision, Token])
def test_a_form_that_is_sent_anyway_changes_nothing(operator, model):
    row = make(model)
    before = model.objects.filter(pk=row.pk).values().get()
    for page in ("change", "delete"):
        assert operator.post(address(model, page, row.pk), {"verb": "x", "post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).values().get() == before


# Admins of a team who are no superusers ------------------------------------------------------------------------------


@pytest.fixture
def staff(alice, browser_of):
    """Alice, admin of Payments, as staff."""
    get_user_model().objects.filter(pk=alice.pk).update(is_staff=True)
    alice.refresh_from_db()
    return browser_of(alice)


def test_a_teams_admin_sees_only_rows_of_that_team(staff, team, other_team, agent, other_agent):
    own, foreign = make_token(team, agent=agent), make_token(other_team, agent=other_agent)
    text = staff.get("/admin/dashboard/token/").content.decode()
    assert (own[:11] in text, foreign[:11] in text, ">Other<" in text) == (True, False, False)
    hidden = Token.objects.get(agent=other_agent)
    assert staff.get(address(Token, "change", hidden.pk)).status_code == 302
    filtered = staff.get(f"/admin/dashboard/token/?team__id__exact={other_team.pk}").context["cl"]
    assert [token for token in filtered.queryset if token.team == other_team] == []


def test_a_teams_admin_sees_no_rows_that_belong_to_no_team(staff, bob):
    request = RequestFactory().get("/")
    request.user = get_user_model().objects.get(username="alice")
    for model, shown in ADMINS.items():
        if not isinstance(shown, Plain):
            make(model)
        if shown.team_path is None:
            assert staff.get(address(model)).status_code == 403, model._meta.label
        else:
            others = shown.get_queryset(request).exclude(
                **{f"{shown.team_path}__in": Team.objects.filter(slug="payments")}
            )
            assert list(others) == [], model._meta.label


def test_staff_who_are_admin_of_no_team_see_nothing(bob, browser_of, team):
    get_user_model().objects.filter(pk=bob.pk).update(is_staff=True)
    assert Membership.objects.get(user=bob).role == Role.REVIEWER
    client = browser_of(get_user_model().objects.get(pk=bob.pk))
    assert {client.get(address(model)).status_code for model in REGISTERED} == {403}
