"""What must be true before the parts start: folders, database, static files, a schedule, a way in for the first."""

import hashlib
import ipaddress
import os
import stat
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.db import transaction

from dashboard import database, tasks
from dashboard.backup import RESTORING
from dashboard.keys import make_private
from dashboard.models import Membership, Role, Team
from dashboard.tokens import make_sign_in_link

UNUSED = ["redoc*"]  # static files that no page loads; ninja's second reader of the API is the largest of all
FIRST_ADMIN, FIRST_TEAM = "admin", "main"


class Refused(Exception):
    """Handrail must not start like this; the message says why and what to do."""


def runtime_folder():
    """Make the folder for sockets and heartbeats, 0700 and ours: its parent may be writable by everybody."""
    folder = settings.HANDRAIL_RUNTIME
    try:
        make_private(folder)
        found = os.lstat(folder)
    except (FileExistsError, PermissionError) as error:
        raise Refused(f"The runtime folder {folder} cannot be made: {error.strerror}. Set HANDRAIL_RUNTIME.") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(f"The runtime folder {folder} belongs to somebody else. Remove it, or set HANDRAIL_RUNTIME.")
    make_private(folder / "heartbeat")


def migrate(say):
    """Bring the database up to this code, with a copy of what was there before."""
    try:
        database.refuse_unfit()
        pending = database.pending_migrations()
        if not pending:
            return
        if database.is_sqlite() and not database.is_empty():
            say(f"the database is copied to {database.copy_by_name('before-migrate', keep=5)}")
    except database.DatabaseRefused as refused:
        raise Refused(str(refused)) from None
    say(f"migrating: {len(pending)} steps")
    call_command("migrate", interactive=False, verbosity=0)


def collect_static(say):
    """Collect static files when any of them changed since the last time."""
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
    """The person who gets the first way in, until anybody has signed in; None from then on."""
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
    """The line that `up` prints: where to go, with a one-time way in while nobody has been in yet."""
    admin = first_admin()
    if admin is None:
        return f"Handrail is at {settings.HANDRAIL_PUBLIC_URL}/"
    secret = make_sign_in_link(admin)
    return f"Handrail is at {settings.HANDRAIL_PUBLIC_URL}/sign-in/{secret}/ (signs {admin} in once, within the hour)"


def prepare(say) -> None:
    """Raises Refused, with nothing changed, when Handrail must not start."""
    if (settings.HANDRAIL_HOME / RESTORING).exists():
        raise Refused(
            f"A restore into {settings.HANDRAIL_HOME} was cut short. Empty that folder and restore again; the backup "
            "itself was only read."
        )
    migrate(say)
    collect_static(say)
    tasks.arrange()


def warnings() -> list[str]:
    """What an operator should know at each start."""
    public = urlsplit(settings.HANDRAIL_PUBLIC_URL)
    if public.scheme == "http" and not _is_loopback(public.hostname):
        return [
            f"{settings.HANDRAIL_PUBLIC_URL} is not encrypted: sessions, tokens and decisions can be read and "
            "changed on the way. Put a proxy with TLS in front and set HANDRAIL_PUBLIC_URL to its https address."
        ]
    return []


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
