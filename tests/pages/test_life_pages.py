"""A workspace's life on its pages: why it is awake, what its proof found, its size, what drifted, its services."""

from datetime import timedelta

from dashboard.database import clock
from tests.pages.conftest import make_command
from workspaces.manifests.body import made_with
from workspaces.models import Environment, Manifest, Operation, Phase, Run, Runner, State, Workspace

ALARM = {
    "at": "2026-11-21T09:14:00+00:00",
    "snapshot": 2,
    "found": 3,
    "entries": 83915,
    "differ": 1,
    "names": ["src/a\u202eb"],
}


def address(workspace, rest=""):
    return f"/w/{workspace.team.slug}/{workspace.key}/{rest}"


def test_an_alarm_names_what_differs_and_offers_three_answers(workspace, alice, vera, browser_of, read):
    Workspace.objects.update(alarm=ALARM, proof=ALARM | {"differ": 0})
    text = read(browser_of(alice), address(workspace))
    assert "1 of 83,915 files and folders differ from snapshot 2. Nothing was replaced." in text
    assert "src/a" in text
    assert "\u202e" not in text
    assert f'href="{address(workspace, "changes/")}?from=2&amp;to=3"' in text
    assert f'href="{address(workspace, "snapshots/2/restore/")}"' in text
    assert f'action="{address(workspace, "keep/")}"' in text
    assert "0 of 83,915" not in text  # a later proof does not hide it
    assert "keep/" not in read(browser_of(vera), address(workspace))


def test_a_microvm_pauses_with_or_without_its_memory_and_the_page_says_what_is_kept(workspace, alice, browser_of, read):
    person = browser_of(alice)
    assert "Pause without memory" not in read(person, address(workspace))  # a sandbox has none to keep
    Environment.objects.update(driver="microvm")
    assert "Pause without memory" in read(person, address(workspace))
    person.post(address(workspace, "pause-files/"))
    [operation] = Operation.objects.all()
    assert (operation.kind, operation.args) == ("pause", {"memory": False})
    operation.delete()
    Workspace.objects.update(state=State.PAUSED)
    runner = Runner.objects.create(host="h", heartbeat_at=clock.now())
    run = Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now(), ended_at=clock.now())
    text = read(person, address(workspace))
    assert "Paused: Any use resumes it." in text
    assert "All files, as in snapshot 2 (12 files and folders)." in text
    assert "Programs and their memory: they ended." in text
    Run.objects.filter(pk=run.pk).update(memory_kept=True)
    text = read(person, address(workspace))
    assert "Programs with their memory: they go on where they were, and services start again." in text
    assert "they ended" not in text


def test_keeping_what_was_found_is_asked_of_the_runner_once(workspace, alice, vera, browser_of):
    person = browser_of(alice)
    assert browser_of(vera).post(address(workspace, "keep/")).status_code == 403
    person.post(address(workspace, "keep/"))
    assert Operation.objects.count() == 0  # there was nothing to answer
    Workspace.objects.update(alarm=ALARM)
    person.post(address(workspace, "keep/"))
    assert [operation.args["kind"] for operation in Operation.objects.all()] == ["kept"]


def test_the_page_says_why_it_is_awake_and_keeps_it_so(workspace, alice, browser_of, read):
    person = browser_of(alice)
    assert "Awake: it was used. Pauses at " in read(person, address(workspace))
    make_command(workspace, "npm run dev", phase=Phase.STARTED)
    assert "Awake: <code>npm run dev</code> is running." in read(person, address(workspace))
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": True})
    person.post(address(workspace, "awake/"), {"hours": "8"})
    workspace.refresh_from_db()
    assert timedelta(hours=7) < workspace.awake_until - clock.now() <= timedelta(hours=8)
    assert "Awake: kept running on request. Pauses at " in read(person, address(workspace))
    person.post(address(workspace, "awake/"), {"hours": "999"})
    person.post(address(workspace, "awake/"), {"hours": ""})
    workspace.refresh_from_db()
    assert workspace.awake_until is None


def test_a_service_keeps_nothing_awake_and_is_shown(workspace, alice, browser_of, read):
    Environment.objects.update(services={"web": "npm run dev", "db": "start-db"})
    runner = Runner.objects.create(host="h", heartbeat_at=clock.now())
    run = Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now(), ready_at=clock.now())
    make_command(workspace, "npm run dev", phase=Phase.STARTED, service="web", run=run)
    make_command(workspace, "start-db", exit_status=3, service="db", run=run)
    person = browser_of(alice)
    assert "Awake: it was used." in read(person, address(workspace))
    text = read(person, address(workspace, "checks/"))
    assert "Running" in text
    assert "Failed, restarting" in text
    person.post(address(workspace, "services/start/"), {"service": "nothing"})
    assert Operation.objects.count() == 2
    person.post(address(workspace, "services/start/"), {"service": "web"})
    assert Operation.objects.count() == 2  # it runs
    person.post(address(workspace, "services/start/"), {"service": "db"})
    assert Operation.objects.filter(kind="service", phase=Phase.DUE).count() == 1


def test_the_page_names_size_and_frozen_programs(workspace, alice, browser_of, read):
    person = browser_of(alice)
    Environment.objects.update(limits={"disk_bytes": 100 * 1024**2})
    Workspace.objects.update(vitals={"bytes": 50 * 1024**2, "ports": [{"address": "127.0.0.1", "port": 8099}]})
    text = read(person, address(workspace))
    assert "50.0\xa0MB of 100.0\xa0MB" in text
    assert "8099" in text
    assert 'data-tone="amber">Uses' not in text
    Workspace.objects.update(vitals={"bytes": 90 * 1024**2})
    assert 'data-tone="amber"> Uses 90.0\xa0MB of 100.0\xa0MB' in read(person, address(workspace))
    Workspace.objects.update(vitals={"bytes": 110 * 1024**2, "frozen": "It stands still."})
    text = read(person, address(workspace))
    assert "It stands still." in text
    assert f'href="{address(workspace, "size/")}"' in text


def test_the_pages_and_the_api_say_what_is_shared(workspace, alice, browser_of, read, api, token_of):
    shared = [{"id": str(workspace.pk), "key": "its-origin", "bytes": 30 * 1024**2}]
    Workspace.objects.update(vitals={"bytes": 50 * 1024**2, "shared": shared})
    person = browser_of(alice)
    assert "30.0\xa0MB of it shared with its-origin" in read(person, address(workspace))
    assert "30.0\xa0MB of it is shared with its-origin" in read(person, address(workspace, "size/"))
    told = api(token_of(alice)).get(f"/api/v1/workspaces/{workspace.key}").json()
    assert told["vitals"]["shared"] == shared


def test_drift_is_reported_and_a_new_set_up_is_offered_to_leads(workspace, lena, bob, browser_of, read):
    first = workspace.environment
    Manifest.objects.filter(snapshot=workspace.baseline).update(body=made_with(first))
    assert "Rebuild with version" not in read(browser_of(lena), address(workspace))
    Environment.objects.create(team=workspace.team, name=first.name, version=2, setup="make deps")
    text = read(browser_of(lena), address(workspace))
    assert "The setup script has changed since it was created." in text
    assert "Rebuild with version 2" in text
    assert "Rebuild with version 2" not in read(browser_of(bob), address(workspace))
    assert "runs the setup of version" in read(browser_of(lena), address(workspace, "rebuild/"))
    assert browser_of(bob).post(address(workspace, "rebuild/")).status_code == 403
    browser_of(lena).post(address(workspace, "rebuild/"))
    assert [operation.kind for operation in Operation.objects.all()] == ["rebuild"]


def test_lock_files_that_changed_since_setup_are_said_by_page_and_api(workspace, lena, browser_of, read, api, token_of):
    first = workspace.environment
    Environment.objects.filter(pk=first.pk).update(setup="uv sync")
    first.refresh_from_db()
    was = [{"path": "uv.lock", "sha256": "a" * 64}, {"path": "go.sum", "sha256": "b" * 64}]
    now = [{"path": "uv.lock", "sha256": "c" * 64}, {"path": "yarn.lock", "sha256": "d" * 64}]
    Manifest.objects.filter(snapshot=workspace.baseline).update(body=made_with(first) | {"lock_files": was})
    Manifest.objects.filter(snapshot=workspace.head).update(body=made_with(first) | {"lock_files": now})
    words = "Set-up is out of date: go.sum was removed, uv.lock changed, yarn.lock was added."
    text = read(browser_of(lena), address(workspace))
    assert words in text
    assert "Set up again…" in text
    drift = api(token_of(lena)).get(f"/api/v1/workspaces/{workspace.key}/drift").json()["drift"]
    assert (drift["words"], drift["lock_files"][1]) == ([words], {"path": "uv.lock", "change": "changed"})
    Environment.objects.update(setup="")  # nothing was set up, so nothing is out of date
    Manifest.objects.filter(snapshot=workspace.baseline).update(
        body=made_with(Environment.objects.get()) | {"lock_files": was}
    )
    assert api(token_of(lena)).get(f"/api/v1/workspaces/{workspace.key}/drift").json() == {"drift": None}


def test_a_byte_by_byte_proof_is_one_tap(workspace, alice, browser_of, read):
    person = browser_of(alice)
    Workspace.objects.update(state=State.PAUSED)
    assert "Compare every byte" in read(person, address(workspace))
    person.post(address(workspace, "prove/"))
    assert [operation.kind for operation in Operation.objects.all()] == ["prove"]


def test_a_silent_host_is_reported_and_nothing_is_replaced(workspace, alice, browser_of, read):
    long_ago = clock.now() - timedelta(minutes=5)
    workspace.runner = Runner.objects.create(host="cellar", heartbeat_at=long_ago, unclear=["Something runs here."])
    workspace.save()
    person = browser_of(alice)
    assert "Its host cellar does not answer. Its files are unaffected." in read(person, address(workspace))
    assert "Something runs here." in read(person, "/status/")


def test_an_archive_is_made_on_a_page_that_shows_how_far_it_is(workspace, alice, vera, browser_of, read):
    person, at = browser_of(alice), address(workspace, "snapshots/2/archive/")
    assert browser_of(vera).post(at).status_code == 403
    first = person.post(at)
    assert person.post(at).url == first.url  # the same wish twice is one archive
    operation = Operation.objects.get()
    assert (operation.kind, operation.args) == ("archive", {"number": 2})
    Operation.objects.update(phase=Phase.STARTED, progress={"step": "archive", "done": 4000, "total": 83915})
    text = read(person, first.url)
    assert "packing the files, 4,000 of 83,915 entries" in text
    assert f'action="{address(workspace, f"operations/{operation.pk}/stop/")}"' in text
    person.post(address(workspace, f"operations/{operation.pk}/stop/"))
    assert "Stopping…" in read(person, first.url)
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2, "bytes": 4096})
    assert f'href="{at}">Download<' in read(person, first.url)
