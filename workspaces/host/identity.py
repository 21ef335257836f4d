"""Which installation is the runner of a host: one database may serve several, and none may take over another's.

An installation is a HANDRAIL_HOME, which has a random id. The row of a host belongs to the installation that registered
it first. On PostgreSQL a session's advisory lock keeps two copies of one HANDRAIL_HOME from running at once; on SQLite
the lock of the folder does.
"""

import os
import threading
import zlib
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings
from django.db import connection, transaction

from dashboard.keys.key_files import read_or_make
from workspaces.drivers.processes import boot_id
from workspaces.host import same_keys
from workspaces.models import Runner


class OtherInstallation(Exception):
    """The host's row belongs to another installation; the text can be shown."""


# The server ends the session, and with it the lock, soon after the host has vanished from the network.
NOTICE_LOST = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
OWN_SESSION = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
END_SESSION = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
LOCKS = 0x4861_6E64  # the first number of the advisory locks of runners; the second is made from the host's name


def installation() -> str:
    """Return the id of this HANDRAIL_HOME, made at its first start."""
    return read_or_make(settings.HANDRAIL_HOME / "installation")


def code_version() -> str:
    """Return the installed version of Handrail; "not installed" where a checkout runs without an installation."""
    try:
        return version("handrail")
    except PackageNotFoundError:
        return "not installed"


def refuse_another():
    """Raise OtherInstallation if another installation is the runner of this host's name in the database."""
    _refuse(Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).first())


def _refuse(row: Runner | None):
    if row is not None and row.removed_at is not None and row.installation == installation():
        raise OtherInstallation(
            f"{row.host} was removed from this installation at {row.removed_at:%Y-%m-%d %H:%M} UTC. To bring the "
            "machine back: `manage.py host add` on a member, and `manage.py join` here with an empty HANDRAIL_HOME."
        )
    if row is None or row.installation in ("", installation()):
        return
    raise OtherInstallation(
        f"Another Handrail (home {row.home}, process {row.pid}) is the runner {row.host} of this database. Give this "
        f"one a HANDRAIL_HOST_NAME of its own. If that home is lost for good: `manage.py take_over_host {row.host}`."
    )


def register() -> Runner:
    """Make the host's row that of this installation; raise OtherInstallation if it is another's."""
    values = {
        # Its capabilities and the states of its workspaces are those of an earlier runner until it is ready.
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "heartbeat_at": None,
        "version": code_version(),
        "installation": installation(),
        "home": str(settings.HANDRAIL_HOME)[:400],
        "keys": same_keys.fingerprints(),
        "parts": list(settings.HANDRAIL_PARTS),
        "address": settings.HANDRAIL_RUNNER_ADDRESS,
    }
    with transaction.atomic():
        _refuse(Runner.objects.locked().filter(host=settings.HANDRAIL_HOST_NAME).first())
        return Runner.objects.update_or_create(host=settings.HANDRAIL_HOST_NAME, defaults=values)[0]


def take_over(host: str) -> bool:
    """Let the next installation that starts be the runner of a host; False if there is none with this name."""
    return bool(Runner.objects.filter(host=host).update(installation="", home="", keys={}, removed_at=None))


class Lead:
    """The right to be the runner of this host's name, held by a connection of its own to PostgreSQL.

    On SQLite there is nothing to hold: the lock of the folder does it.
    """

    def __init__(self):
        self._holding = None  # the connection whose session has the lock
        self._session = None  # (pid, start) of that session at the server, which may outlive the connection
        self._taking = threading.Lock()  # else two threads that both lost it would refuse each other

    def take(self):
        """Take the lock unless this process has it; again if its connection was lost, as with a restarted server.

        Raise OtherInstallation if another process has it.
        """
        if connection.vendor == "postgresql":
            with self._taking:
                self._take_lock()

    def _take_lock(self):
        if self._holding is not None and self._holding.is_usable():
            return
        self._let_go()
        opened = connection.copy()
        opened.inc_thread_sharing()  # the runner's threads use it in turn
        try:
            with opened.cursor() as cursor:
                cursor.execute(NOTICE_LOST)
                if self._session:  # its connection broke on the way, and the server has not noticed that yet
                    cursor.execute(END_SESSION, self._session)
                    self._session = None
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCKS, _number(settings.HANDRAIL_HOST_NAME)])
                if cursor.fetchone()[0]:
                    cursor.execute(OWN_SESSION)
                    self._session = cursor.fetchone()
                    self._holding, opened = opened, None
                    return
        finally:
            if opened is not None:
                opened.close()
        raise OtherInstallation(
            f"Another runner {settings.HANDRAIL_HOST_NAME} uses this database. Give this one a HANDRAIL_HOST_NAME of "
            "its own."
        )

    def leave(self):
        """Let another process have it."""
        with self._taking:
            self._let_go()
            self._session = None

    def _let_go(self):
        if self._holding is not None:
            self._holding.close()
            self._holding = None


def _number(name: str) -> int:
    """Return a number of 32 bits with a sign, as PostgreSQL takes it."""
    return zlib.crc32(name.encode()) - 2**31
