"""Every address of the site, with every role, a stranger and nobody: a new route is covered unasked."""

import re
import uuid
from dataclasses import asdict
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, resolve, reverse

from approvals.agent_runs.definitions import content
from approvals.evaluation import policies
from approvals.models import (
    AapRequest,
    AgentDefinition,
    AgentRun,
    AgentSession,
    ApproverGroup,
    Grant,
    HostAccount,
    HostedRepository,
    LineComment,
    LogTarget,
    Message,
    PolicyFile,
    Task,
    TaskAttempt,
)
from approvals.pages.policy import replays
from approvals.reports.policy_changes.effect import Replay
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, SignInLink, Token
from dashboard.people.tokens import make_sign_in_link, make_token
from workspaces import secrets
from workspaces.models import (
    Artifact,
    Checkpoint,
    Credential,
    HandOver,
    Lesson,
    Manifest,
    Operation,
    PurgeReceipt,
    Run,
    Runner,
    Schedule,
    ScheduledRun,
    State,
    Terminal,
)
from workspaces.services.retention import holds

from .conftest import FORCE, make_workspace

# Addresses that have their own way of saying who may: tokens, links, Django's admin, allauth's pages; and public ones.
OTHER_DOORS = ("admin/", "api/v1/", "hooks/", "aap/", "e2b/", "accounts/", "sign-in/", "healthz", "readyz", "push/")
OTHER_DOORS += ("metrics", "manifest.webmanifest", "service-worker.js", "texts.js", "language/", "hosts/join")
# What a viewer may change: what is only their own.
OPEN = {"acp-program"}  # a program to download: the machine that does so has no session
OWN = {"theme", "keys", "connect-phone", "notifications", "notifications-test", "channel-add", "channel-remove"}
OWN |= {"view-save", "view-remove", "device-add", "device-drop", "device-remove"}
OWN |= {"changed-seen", "session-end", "sessions-end", "team-show"}
OWN |= {"snapshot-folder", "snapshot-folder-close"}  # on the host, of files that they may read
FOR_SUPERUSERS = {"status-host"}  # a host is of all teams
FOR_ADMINS = {
    "callbacks",
    "storage-collect",
    "tokens",
    "log-targets",
    "scrub",
    "scrub-found",
    "purge-receipt",
    "person-purge",
}
FOR_ADMINS |= {"callbacks"}
SECRET = "only-for-payments"
FOUND = {"ok": True, "total": 1, "places": [{"kind": "row", "what": SECRET, "name": SECRET, "paths": []}]}


def routes(patterns=None, prefix=""):
    """(route, name) of each address of ours."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if route.startswith(OTHER_DOORS):
            continue
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route, pattern.name


ROUTES = sorted(routes())


def task_of(team, workspace) -> Task:
    now = clock.now()
    made = Task.objects.create(
        team=team, title="a task", text=SECRET, environment="default", created_at=now, changed_at=now
    )
    TaskAttempt.objects.create(task=made, number=1, workspace=workspace)
    return made


@pytest.fixture
def site(team, agent, alice, lena, bob, vera, mallory, ask, workspace, command, agent_token):
    """One of everything that an address can name: {converter's name: value} for a route."""
    ask(FORCE, workspace=workspace, reasoning=SECRET)
    token = Token.objects.filter(agent=agent).first()
    operation = Operation.objects.create(
        workspace=workspace,
        kind="restore",
        phase="settled",
        exclusive=True,
        due_at=workspace.created_at,
        outcome={"ok": False, "reason": SECRET},
    )
    action = agent.actions.get()
    signed_in = UserSession.objects.create(user=alice, ip="192.0.2.1", user_agent=SECRET, session_key="k" * 32)
    by, soon = Actor.system("tests"), clock.now() + timedelta(hours=1)
    thrown = make_workspace(team, agent, "repo-thrown", State.STOPPED, trashed_at=clock.now(), purge_at=soon)
    run = Run.objects.create(workspace=workspace, runner=Runner.objects.create(host="one"), started_at=clock.now())
    Manifest.objects.create(run=run, body={"kind": "resume", "snapshot": 1, "repository": SECRET}, sha256="0" * 64)
    when = {"started_at": soon, "last_at": soon}
    conversation = AgentSession.objects.create(team=team, agent=agent, native_id="s", title=SECRET, **when)
    Message.objects.create(session=conversation, seq=1, at=soon, role="user", kind="text", text=SECRET)
    schedule = Schedule.objects.create(
        team=team,
        name="nightly",
        cron="0 3 * * *",
        command=SECRET,
        kind="command",
        workspace=workspace,
        created_at=soon,
    )
    night = {"workspace": workspace, "command": command, "reason": SECRET, "state": "running", "budget_asked_at": soon}
    told = content.checked({"system": SECRET})
    AgentDefinition.objects.create(team=team, name="claude", content=told, created_at=soon)
    started = {"team": team, "workspace": workspace, "agent": agent, "program": "codex@1.2.3", "task": SECRET}
    started |= {"model": "none", "state": "done", "summary": SECRET, "created_at": soon, "changed_at": soon}
    about = {
        "tasks/sources/accounts/": HostAccount.objects.create(
            team=team, user=lena, origin="https://git.example.org", login="lena"
        ).pk,
        "tasks/sources/": HostedRepository.objects.create(
            team=team,
            kind="gitea",
            address=f"https://git.example.org/x/{SECRET}",
            environment="default",
            created_at=soon,
            read_to=soon,
        ).pk,
        "tasks/": task_of(team, workspace).pk,
        "agent-runs/": AgentRun.objects.create(**started).pk,
        "schedules/": schedule.pk,
        "scheduled-runs/": ScheduledRun.objects.create(schedule=schedule, due_at=soon, **night).pk,
        "actions/": action.pk,
        "alike/": action.pk,
        "agents/": agent.pk,
        "conversations/": conversation.pk,
        "tokens/": token.pk,
        "team/groups/": ApproverGroup.objects.create(team=team, name="dba").pk,
        "team/": Membership.objects.get(user=vera).pk,
        "environments/": workspace.environment_id,
        "workspaces/trash/": thrown.pk,
        "operations/": operation.pk,
        "rebuild/": operation.pk,
        "commands/": command.pk,
        "terminals/": Terminal.objects.create(
            workspace=workspace, operation=operation, argv=["bash"], opened_by=asdict(by)
        ).pk,
        "runs/": run.pk,
        "credentials/": Credential.objects.create(
            team=team, name="GITHUB", value=b"", header=SECRET, variable="GITHUB_TOKEN", set_at=soon
        ).pk,
        "callbacks/": AapRequest.objects.create(
            agent=agent, action=action, key="k", submission="{}", created_at=soon, deadline_at=soon
        ).pk,
        "secrets/": secrets.save(team, "DEPLOY_KEY", "agent", SECRET * 2, by=by).pk,
        "scrub/": Operation.objects.create(
            team=team, kind="scrub", phase="settled", due_at=soon, args={"keyed_hash": ""}, outcome=FOUND
        ).pk,
        "receipts/": PurgeReceipt.objects.create(
            team=team, body={"reason": SECRET}, sha256="0" * 64, created_at=clock.now()
        ).pk,
        "holds/": holds.hold(team, workspace=workspace, reason=SECRET, by=by).pk,
        "log/targets/": LogTarget.objects.create(team=team, kind="folder", created_at=clock.now()).pk,
        "comments/": LineComment.objects.create(
            team=team,
            user=bob,
            workspace=workspace,
            path="a",
            side="new",
            line=1,
            end_line=1,
            quote=SECRET,
            text=SECRET,
            at=soon,
            sent_at=soon,
            agent=agent,
        ).pk,
        "policy/files/": PolicyFile.objects.create(
            team=team, repository=SECRET, workspace=workspace, text=SECRET, sha256="0" * 64, seen_at=soon
        ).pk,
        "artifacts/": Artifact.objects.create(
            team=team, workspace=workspace, key=workspace.key, snapshot_number=1, name="a", note=SECRET, created_at=soon
        ).pk,
        "checkpoints/": Checkpoint.objects.create(
            workspace=workspace,
            environment=workspace.environment,
            name="a",
            bytes=1,
            snapshot_number=1,
            disk_generation=0,
            created_at=soon,
        ).pk,
        "lessons/": Lesson.objects.create(
            team=team, repository=SECRET, number=1, text=SECRET, sha256="0" * 64, created_at=clock.now()
        ).pk,
        "hand-overs/": HandOver.objects.create(
            workspace=workspace, snapshot_number=2, message=SECRET, created_at=clock.now()
        ).pk,
        "grants/": Grant.objects.create(team=team, agent=agent, by=bob, expires_at=soon, uses_left=9).pk,
    }

    def arguments(route):
        named = {"pk": signed_in.pk, "team": team.slug, "key": workspace.key, "number": 1, "line": 1}
        named |= {
            "host": "one",
            "word": "drain",
            "name": "claude",
            "form": "letta",
            "kind": "csv",
            "agent": "claude-code",
            "numbers": str(action.number),
            "replay": replays.started(Replay(Scope(team), policies.active(team.pk).text), [])["key"],
        }
        for converter, name in re.findall(r"<(\w+):(\w+)>", route):
            if converter == "uuid":
                named[name] = next((pk for part, pk in about.items() if f"{part}<uuid" in route), uuid.uuid4())
        wanted = set(re.findall(r"<\w+:(\w+)>", route))
        return {name: value for name, value in named.items() if name in wanted}

    return arguments


def state():
    """What must not change under hands that may not: every row that counts."""
    tables = ["dashboard_event", "approvals_action", "approvals_decision", "workspaces_operation", "dashboard_token"]
    tables += ["dashboard_membership", "workspaces_workspace", "approvals_policy", "dashboard_agent", "dashboard_team"]
    tables += [
        "approvals_grant",
        "workspaces_secret",
        "workspaces_credential",
        "workspaces_snapshot",
        "workspaces_terminal",
    ]
    tables += ["approvals_linecomment", "approvals_policyfile", "approvals_approvergroup"]
    tables += [
        "workspaces_command",
        "workspaces_environment",
        "workspaces_hold",
        "workspaces_artifact",
        "workspaces_checkpoint",
        "workspaces_retentionrule",
    ]
    tables += ["workspaces_schedule", "workspaces_scheduledrun", "approvals_agentrun", "approvals_agentturn"]
    tables += ["approvals_agentdefinition", "approvals_agenttrial"]
    tables += ["workspaces_noteversion", "workspaces_lesson", "workspaces_handover"]
    found = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608 (names from above)
            # When somebody was last seen is no change.
            names = [c[0] for c in cursor.description]
            skip = {i for i, name in enumerate(names) if name in ("desk_seen_at", "last_used_at", "last_seen_at")}
            found[table] = [tuple(v for i, v in enumerate(row) if i not in skip) for row in cursor.fetchall()]
    return found


def test_there_are_routes_to_walk():
    assert len(ROUTES) > 40
    assert {"desk", "waiting", "action", "workspace", "log"} <= {name for _, name in ROUTES}


def test_nobody_comes_in_without_signing_in(site, client):
    for route, name in ROUTES:
        if name in OPEN:
            continue
        address = reverse(name, kwargs=site(route))
        _, shown_at, _ = getattr(resolve(address).func, "typed", ((), "", False))
        form = reverse(shown_at, kwargs=site(route)) if shown_at else address
        for response, then in ((client.get(address), address), (client.post(address), form)):
            assert response.status_code == 302, (address, response.status_code)
            assert response.headers["Location"] == f"/accounts/login/?next={then}"


def test_a_stranger_finds_nothing_and_changes_nothing(site, browser_of, mallory):
    client, before = browser_of(mallory), state()
    for route, name in ROUTES:
        kwargs = site(route)
        address = reverse(name, kwargs=kwargs)
        for method in ("get", "post"):
            response = getattr(client, method)(address)
            body = b"" if response.streaming else response.content
            assert SECRET.encode() not in body, (method, address)
            assert b"repo-task-1" not in body, (method, address)
            if name in FOR_SUPERUSERS:
                assert response.status_code == 403
            elif kwargs and name != "oversight-file":  # of their own team
                assert response.status_code in (404, 405), (method, address, response.status_code)
            else:
                assert response.status_code < 500, (method, address, response.status_code)
    assert state() == before
    assert not Event.objects.filter(actor_label="mallory").exists()


@pytest.mark.parametrize("person", ["vera", "bob", "lena", "alice"])
def test_every_role_gets_an_answer_everywhere(site, browser_of, person, request):
    client = browser_of(request.getfixturevalue(person))
    # Without a runner and a store; and six that lead on to another page.
    special = {"workspace-file-raw": 503, "workspace-files-zip": 503, "snapshot-archive": 503, "workspace-patch": 404}
    special |= {"artifact-new": 302, "artifact-zip": 409, "changed-file": 404, "changed-image": 404}
    special |= {"snapshot-screenshot": 404, "log-checkpoint": 404}  # nothing is signed yet
    special |= dict.fromkeys(
        (
            "log-proof",
            "line-comment",
            "action-rollback",
            "action-conversation",
            "workspace-reset",
            "alike",
            "action-allow",
        ),
        302,
    )
    refused = (403,) if person in ("vera", "bob") else ()
    for route, name in ROUTES:
        address = reverse(name, kwargs=site(route))
        response = client.get(address)
        closed = name in FOR_SUPERUSERS or (name in FOR_ADMINS and person == "lena")
        expected = (special.get(name, 200), 405, *refused, *((403,) if closed else ()))
        assert response.status_code in expected, (person, address, response.status_code)
        if response.status_code == 302:
            assert not response.headers["Location"].startswith("/accounts/login/"), address


def test_a_viewer_changes_nothing(site, browser_of, vera):
    client = browser_of(vera)
    before = state()
    for route, name in ROUTES:
        if name in OWN:
            continue
        address = reverse(name, kwargs=site(route))
        response = client.post(address, {"team": "payments", "digest": "0" * 64, "agent": "x", "command": "ls"})
        # 404: an agent that the form should have named; 405: a page that only shows.
        assert response.status_code in ((404,) if name == "connect-test" else (403, 405)), (address, name)
        assert state() == before, address


def test_what_changes_something_takes_a_post(site, browser_of, alice):
    """A GET of any address, by the one who may do everything, changes nothing."""
    client = browser_of(alice)
    before = state()
    for route, name in ROUTES:
        client.get(reverse(name, kwargs=site(route)))
        assert state() == before, route


def test_forms_of_other_sites_are_refused(site, alice):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    for route, name in ROUTES:
        response = client.post(reverse(name, kwargs=site(route)))
        assert response.status_code in (403, 405), (route, response.status_code)


def test_a_one_time_link_is_not_used_up_by_looking(alice, client):
    secret = make_sign_in_link(alice)
    client.get(reverse("sign-in", args=[secret]))
    assert SignInLink.objects.get(user=alice).used_at is None


def test_a_token_opens_no_page(site, alice, team, client):
    token = make_token(team, user=alice)
    response = client.get("/", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 302


def test_pages_bring_no_inline_code(site, browser_of, alice):
    client = browser_of(alice)
    for route, name in ROUTES:
        response = client.get(reverse(name, kwargs=site(route)))
        if response.streaming or "text/html" not in response.headers.get("Content-Type", ""):
            continue
        text = response.content.decode()
        assert not re.search(r"<[^>]+\son\w+\s*=", text), route
        assert not re.search(r"<[^>]+\sstyle\s*=", text), route
        assert "<style" not in text, route
        for tag in re.findall(r"<script[^>]*>", text):
            assert re.search(r' (src=.*|type="importmap") nonce=', tag), (route, tag)


def test_what_every_page_needs_costs_few_queries(site, browser_of, alice):
    client = browser_of(alice)
    client.get("/more/")  # once a minute a request notes that the session is used
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get("/more/")
    assert len(queries) <= 9
