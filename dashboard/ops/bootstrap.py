"""Prepare what the processes need before they start: folders, database, static files, schedule, the first admin."""

import hashlib
import os
import sqlite3
import stat
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.db import connection, transaction

from approvals.notify import vapid
from dashboard.event_log import triggers
from dashboard.files.locks import is_locked
from dashboard.keys import keyring, log_key
from dashboard.keys.key_files import make_private
from dashboard.models import Membership, Role, Team
from dashboard.net.addresses import is_loopback
from dashboard.ops import database, tasks
from dashboard.ops.backup import RESTORING
from dashboard.people import passkeys
from dashboard.people.tokens import make_sign_in_link
from workspaces.host import identity, parts, same_keys, team_stores, versions
from workspaces.models import Runner
from workspaces.store import StoreError

UNUSED = ["redoc*"]  # not collected: no page loads them, and Redoc is the largest static file of all
FIRST_ADMIN, FIRST_TEAM = "admin", "main"


class StartRefused(Exception):
    """Handrail must not start in this state; the message says why and what to do."""


def runtime_folder():
    """Create the folder for sockets and heartbeats, mode 0700 and owned by us: its parent may be world-writable."""
    folder = settings.HANDRAIL_RUNTIME
    try:
        make_private(folder)
        found = os.lstat(folder)
    except (FileExistsError, PermissionError) as error:
        raise StartRefused(
            f"The runtime folder {folder} cannot be created: {error.strerror}. Set HANDRAIL_RUNTIME."
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StartRefused(f"The runtime folder {folder} belongs to another user. Remove it, or set HANDRAIL_RUNTIME.")
    _refuse_another_home(folder / "used-by")
    make_private(folder / "heartbeat")


def _refuse_another_home(mark: Path):
    """Refuse a runtime folder in use by another installation: each would answer on the other's sockets."""
    home = Path(mark.read_text()) if mark.exists() else settings.HANDRAIL_HOME
    if home != settings.HANDRAIL_HOME and is_locked(home / "up.lock"):
        raise StartRefused(f"Another Handrail, on {home}, uses the runtime folder {mark.parent}. Set HANDRAIL_RUNTIME.")
    mark.write_text(str(settings.HANDRAIL_HOME))


def migrate(say):
    """Apply pending migrations, after copying an existing SQLite database; one host at a time."""
    with database.migrating():
        _migrate(say)


def _migrate(say):
    _refuse_version()
    try:
        database.refuse_unfit()
        pending = database.pending_migrations()
        if not pending:
            if missing := triggers.restore(connection):
                say(f"the database lacked what keeps events unchanged, and has it again: {', '.join(missing)}")
            return
        is_empty = database.is_empty()
        if database.is_sqlite() and not is_empty:
            say(f"the database is copied to {database.copy_by_name('before-migrate', keep=5)}")
    except database.DatabaseRefused as refused:
        raise StartRefused(str(refused)) from None
    say("creating the database" if is_empty else f"migrating: {len(pending)} steps")
    call_command("migrate", interactive=False, verbosity=0)


def _refuse_version():
    """Raise StartRefused beside hosts of a version that is no neighbour; else note this one, before it migrates."""
    if connection.vendor != "postgresql" or not versions.are_kept():
        return
    if words := versions.refusal(identity.code_version(), host=settings.HANDRAIL_HOST_NAME):
        raise StartRefused(words)
    versions.note_here()


def same_keys_as_others():
    """Raise StartRefused if another host uses this database with other keys."""
    try:
        same_keys.refuse_others()
    except same_keys.KeysDiffer as error:
        raise StartRefused(str(error)) from None


def forget_heartbeat():
    """Clear the heartbeat of the last runner on this host, which a copied database or a kill leaves recent.

    Raise StartRefused if another installation is the runner of this host's name.
    """
    try:
        identity.refuse_another()
    except identity.OtherInstallation as error:
        raise StartRefused(str(error)) from None
    Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).update(heartbeat_at=None)


def register():
    """Write this host, its parts and its keys into its row, for the other hosts and for Status."""
    row = identity.register()
    Runner.objects.filter(pk=row.pk).update(web_at=None, queue_at=None)


def collect_static(say):
    """Collect static files if any of them changed since the last start."""
    digest = hashlib.sha256(str(settings.STORAGES["staticfiles"]).encode())
    for finder in finders.get_finders():
        for name, storage in sorted(finder.list(ignore_patterns=UNUSED), key=lambda found: found[0]):
            known = os.stat(storage.path(name))
            digest.update(f"{name}\0{known.st_size}\0{known.st_mtime_ns}\n".encode())
    stamp = settings.STATIC_ROOT / ".collected"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    say("collecting static files")
    call_command("collectstatic", interactive=False, clear=True, ignore_patterns=UNUSED, verbosity=0)
    stamp.write_text(digest.hexdigest())


@transaction.atomic
def first_admin():
    """Return the account for the first sign-in, created if missing; None once anybody has signed in."""
    people = get_user_model().objects
    if people.filter(last_login__isnull=False).exists():
        return None
    admin, made = people.get_or_create(username=FIRST_ADMIN, defaults={"is_staff": True, "is_superuser": True})
    if made:
        admin.set_unusable_password()
        admin.save(update_fields=["password"])
        team, _ = Team.objects.get_or_create(slug=FIRST_TEAM, defaults={"name": FIRST_TEAM.capitalize()})
        Membership.objects.create(team=team, user=admin, role=Role.ADMIN)
    return admin if admin.is_active and admin.is_superuser else None


def welcome() -> str:
    """Return the line that `up` prints: the address, with a one-time sign-in link until anybody has signed in.

    On a host without web it names the parts instead.
    """
    if not parts.run_here("web"):
        here = " and ".join(settings.HANDRAIL_PARTS)
        return f"Handrail runs its {here} on {settings.HANDRAIL_HOST_NAME}, for {settings.HANDRAIL_PUBLIC_URL}/"
    admin = first_admin()
    if admin is None:
        return f"Handrail is at {settings.HANDRAIL_PUBLIC_URL}/"
    secret = make_sign_in_link(admin)
    return f"Handrail is at {settings.HANDRAIL_PUBLIC_URL}/sign-in/{secret}/ (signs {admin} in once, within the hour)"


def prepare(say) -> None:
    """Migrate, collect static files, set up the schedule. Raise StartRefused if it must not start."""
    if (settings.HANDRAIL_HOME / RESTORING).exists():
        raise StartRefused(
            f"A restore into {settings.HANDRAIL_HOME} was interrupted. Empty that folder and restore again; the backup "
            "itself is unchanged."
        )
    try:
        team_stores.prove()
    except StoreError as error:
        raise StartRefused(f"HANDRAIL_BUCKET cannot be used: {str(error).rstrip('.')}.") from None
    migrate(say)
    forget_heartbeat()
    same_keys_as_others()
    settings.STATIC_ROOT.mkdir(exist_ok=True)  # every part imports what warns of its lack
    if parts.run_here("web"):
        collect_static(say)
    tasks.arrange()
    for make in (vapid.private_key, log_key.private_key, keyring.load):  # now, so that the first backup has them
        make()


def warnings() -> list[str]:
    """Return warnings for the operator, printed after the address at each start."""
    public, found = urlsplit(settings.HANDRAIL_PUBLIC_URL), []
    if public.scheme == "http" and not is_loopback(public.hostname):
        found.append(
            f"{settings.HANDRAIL_PUBLIC_URL} is not encrypted: sessions, tokens and decisions can be read and "
            "changed on the way. Put a proxy with TLS in front and set HANDRAIL_PUBLIC_URL to its https address."
        )
    if words := passkeys.warning():
        found.append(f"{words} {passkeys.WAY_OUT}")
    return found


def first_warnings() -> list[str]:
    """Return warnings that are printed after the address once; `doctor` and the Status page have them always."""
    warned = settings.HANDRAIL_HOME / "warned-of-sqlite"
    words = database.sqlite_bug()
    if not words or (warned.exists() and warned.read_text() == sqlite3.sqlite_version):
        return []
    warned.write_text(sqlite3.sqlite_version)
    return [f"{words} {database.SQLITE_WAY_OUT}"]
