"""Backups that are made by themselves: when, opened and checked, the newest kept, and an event for what fails."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from dashboard.database import clock
from dashboard.models import BackupPlan, Event
from dashboard.ops import backup, doctor, scheduled_backups

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def exports(settings, tmp_path):
    settings.HANDRAIL_EXPORTS = tmp_path
    return tmp_path


def backups(exports) -> list[str]:
    return sorted(path.name for path in (exports / "backups").glob("handrail-*"))


def verbs() -> list[str]:
    return list(Event.objects.order_by("id").values_list("verb", flat=True))


def test_a_backup_is_made_checked_and_in_the_log(team, exports, capsys):
    call_command("backup", scheduled=True)
    [name] = backups(exports)
    assert "and checked." in capsys.readouterr().out
    assert backup.read_manifest(exports / "backups" / name)["format"] == "handrail-backup"
    assert {oct(path.stat().st_mode & 0o777) for path in (exports / "backups" / name).iterdir()} == {"0o600"}
    assert verbs() == ["backup.made"]
    plan = BackupPlan.objects.get()
    assert (plan.problem, name in plan.words, plan.made_at is None) == ("", True, False)


def test_only_the_newest_are_kept(team, exports):
    BackupPlan.objects.create(pk=1, keep=2)
    for _ in range(4):
        scheduled_backups.make()
    (exports / "backups" / "handrail-00000000-unfinished").mkdir()
    newest = scheduled_backups.make()
    found = backups(exports)
    assert (len(found), newest.endswith(found[-1])) == (2, True)


@pytest.mark.parametrize("name", ["database.*", "home.tar.zst"])  # .sqlite3, or .dump of PostgreSQL
def test_damage_is_found(team, exports, name):
    [file] = (exports / "backups" / scheduled_backups.make()).glob(name)
    made, data = file.parent, bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(backup.BackupError, match="damaged"):
        scheduled_backups.verify(made)


def test_an_archive_that_ends_early_is_found_though_its_checksum_is_right(team, exports):
    made = exports / "backups" / scheduled_backups.make()
    packed = made / backup.TAR
    packed.write_bytes(packed.read_bytes()[:-20])
    manifest = json.loads((made / backup.MANIFEST).read_text())
    manifest["files"][backup.TAR] = backup.measure(packed)
    (made / backup.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(backup.BackupError, match="can't be read to its end"):
        scheduled_backups.verify(made)


def test_a_failed_backup_is_an_event_and_on_the_status_page(team, exports):
    (exports / "backups").mkdir(parents=True)
    (exports / "backups").chmod(0o700)
    plan = BackupPlan.objects.create(pk=1)
    BackupPlan.objects.update(problem="The disk is full.")
    [finding] = [one for one in doctor.examine(deep=False) if one.part == "backups"]
    assert (finding.ok, finding.words) == (False, "The last one failed: The disk is full.")
    BackupPlan.objects.filter(pk=plan.pk).update(problem="", made_at=clock.now())
    [finding] = [one for one in doctor.examine(deep=False) if one.part == "backups"]
    assert finding.ok


def test_a_failure_is_recorded_and_raised(team, exports, monkeypatch):
    (exports / "backups").mkdir(parents=True)
    monkeypatch.setattr(backup, "TAR", "missing/home.tar.zst")  # a folder that is not there
    with pytest.raises(CommandError, match="incomplete"):
        call_command("backup", scheduled=True)
    assert verbs() == ["backup.failed"]
    assert "incomplete" in BackupPlan.objects.get().problem


@pytest.mark.parametrize(
    ("hours", "due"), [(None, True), (25, True), (0, False)], ids=["never", "yesterday", "just now"]
)
def test_a_backup_is_due_once_a_day(hours, due):
    begun = None if hours is None else clock.now() - timedelta(hours=hours)
    assert scheduled_backups.is_due(BackupPlan(hour=clock.now().hour, begun_at=begun)) is due
    assert scheduled_backups.is_due(BackupPlan(active=False, begun_at=begun)) is False


def test_a_missing_one_is_said_once_a_day(team):
    plan = BackupPlan.objects.create(pk=1)
    scheduled_backups._say_if_late(plan)
    assert verbs() == []
    BackupPlan.objects.update(made_at=clock.now() - timedelta(hours=27))
    for _ in range(2):
        scheduled_backups._say_if_late(BackupPlan.objects.get())
    assert verbs() == ["backup.late"]


def test_without_a_plan_nothing_is_started_or_missed(team):
    scheduled_backups.start_if_due()
    assert (verbs(), [one for one in doctor.examine(deep=False) if one.part == "backups"]) == ([], [])
