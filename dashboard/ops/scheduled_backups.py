"""Backups that are made by themselves: at an hour, in a folder of their own, opened and checked, the newest kept."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from dashboard.files.locks import take_lock
from dashboard.keys.key_files import make_private
from dashboard.models import Actor, BackupPlan, Event
from dashboard.ops import backup
from handrail_verify.backup import BadBackup, check_database

LATE = timedelta(hours=26)  # after the last good one
BY = Actor.system("backup")
NAMES = "handrail-*"
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


def folder() -> Path:
    return Path(settings.HANDRAIL_EXPORTS) / "backups"


def is_due(plan: BackupPlan) -> bool:
    """Return True from the plan's hour on, until one was begun since then."""
    now = clock.now()
    due = now.replace(hour=plan.hour, minute=0, second=0, microsecond=0)
    due -= timedelta(days=1) if due > now else timedelta()
    return plan.active and (plan.begun_at is None or plan.begun_at < due)


def start_if_due():
    """Start a backup in a process of its own, so that the queue goes on meanwhile; and say when one is missing."""
    plan = BackupPlan.objects.first()
    if plan is None:
        return
    _say_if_late(plan)
    if is_due(plan):
        subprocess.Popen(
            [sys.executable, str(MANAGE), "backup", "--scheduled"], stdin=subprocess.DEVNULL, start_new_session=True
        )


def make() -> str:
    """Make one, open it, delete old ones, and return its folder. Raise BackupError, which is recorded as well.

    Of several that are started at once, one is made.
    """
    base = make_private(folder())
    try:
        lock = take_lock(base / ".lock", wait=0)
    except BlockingIOError:
        raise backup.BackupError("Another backup is being made.") from None
    with lock_held(lock):
        plan, _ = BackupPlan.objects.get_or_create(pk=1)
        BackupPlan.objects.filter(pk=plan.pk).update(begun_at=clock.now())
        target = base / f"handrail-{clock.now():%Y%m%d-%H%M%S-%f}"
        try:
            backup.make(target)
            total = verify(target)
        except (backup.BackupError, OSError) as error:
            BackupPlan.objects.filter(pk=plan.pk).update(problem=str(error))
            Event.objects.record_for_all(actor=BY, verb="backup.failed", data={"reason": str(error)[:300]})
            raise backup.BackupError(str(error)) from error
        words = f"{target.name}: {total:,} bytes"
        BackupPlan.objects.filter(pk=plan.pk).update(made_at=clock.now(), problem="", words=words, late_at=None)
        Event.objects.record_for_all(actor=BY, verb="backup.made", data={"name": target.name, "bytes": total})
        prune(base, plan.keep)
    return str(target)


@contextmanager
def lock_held(fd: int):
    """Close the lock's file at the end, which releases it."""
    try:
        yield
    finally:
        os.close(fd)


def verify(source: Path) -> int:
    """Open a backup: checksums, the database's own check, and every byte of the archive. Return its size.

    Raise BackupError if it could not be restored.
    """
    manifest = backup.read_manifest(source)
    try:
        check_database(source)
        backup.read_archive(source / backup.TAR, ["tar", "--list"])
    except BadBackup as error:
        raise backup.BackupError(str(error)) from None
    except OSError as error:
        raise backup.BackupError(f"The backup is damaged: {backup.TAR} can't be read to its end: {error}.") from error
    return sum(measured["bytes"] for measured in manifest["files"].values())


def prune(base: Path, keep: int):
    """Delete all but the newest `keep` complete backups, and what was left unfinished before the newest."""
    found = sorted((path for path in base.glob(NAMES) if path.is_dir()), reverse=True)
    complete = [path for path in found if (path / backup.MANIFEST).exists()]
    for path in found:
        if path not in complete[:keep]:
            shutil.rmtree(path)


def missing_since(plan: BackupPlan):
    """Return since when there is no good backup although one is expected; None if all is well."""
    last = plan.made_at or plan.created_at
    return last if plan.active and clock.now() - last > LATE else None


def _say_if_late(plan: BackupPlan):
    """Record once a day that a backup is missing."""
    if missing_since(plan) and (plan.late_at is None or clock.now() - plan.late_at > timedelta(days=1)):
        BackupPlan.objects.filter(pk=plan.pk).update(late_at=clock.now())
        Event.objects.record_for_all(actor=BY, verb="backup.late", data={"reason": plan.problem[:300]})
