"""Watch the order in which a test's transactions lock rows on PostgreSQL: the team's turn first (docs/decisions/0100).

Two transactions in the wrong order meet only now and then. Each test that asks the database shows the order of the
transactions that it goes through, whether they meet another one or not.
"""

import re
import sys
import threading
from contextlib import contextmanager

from django.db.backends.signals import connection_created
from django.db.transaction import Atomic

from tests.support import CHECKOUT

LOCKING = re.compile(
    r'\s*(?:UPDATE|DELETE FROM) "(\w+)"|\s*SELECT .*? FROM "(\w+)".* FOR (?:NO KEY )?UPDATE', re.DOTALL
)
INSERTING = re.compile(r'\s*INSERT INTO "(\w+)"')
TURN = "dashboard_team"
TEST = "a test"  # which may prepare what it likes
OURS = tuple(f"{CHECKOUT}/{app}/" for app in ("dashboard", "workspaces", "approvals"))
TURNS = f"{CHECKOUT}/dashboard/row_locks.py"
# Of the installation, or of one person: no transaction locks them after rows of a team.
BEFORE_TEAMS = {
    "account_emailaddress",
    "auth_user",
    "dashboard_signinlink",
    "django_admin_log",
    "django_session",
    "mfa_authenticator",
    "socialaccount_socialaccount",
    "socialaccount_socialtoken",
    "usersessions_usersession",
}
_here = threading.local()


class Held:
    """What the running transaction of this thread has locked."""

    def __init__(self):
        self.depth, self.locked, self.inserted = 0, {}, set()

    def begin(self):
        self.depth += 1
        if self.depth == 1:
            self.locked, self.inserted = {}, set()

    def end(self):
        self.depth -= 1


def _held() -> Held:
    if not hasattr(_here, "held"):
        _here.held = Held()
    return _here.held


@contextmanager
def watched(wrong: list):
    """Add to `wrong` what is locked before the team's turn, with where."""

    def watch(execute, sql, params, many, context):
        held = _held()
        if held.depth:
            _note(held, sql, wrong)
        return execute(sql, params, many, context)

    def watch_connection(connection, **_):
        if watch not in connection.execute_wrappers:
            connection.execute_wrappers.append(watch)

    entering, leaving = Atomic.__enter__, Atomic.__exit__

    def enter(self):
        entering(self)
        if not self._from_testcase:
            _held().begin()

    def leave(self, *error):
        try:
            return leaving(self, *error)
        finally:
            if not self._from_testcase:
                _held().end()

    Atomic.__enter__, Atomic.__exit__ = enter, leave
    connection_created.connect(watch_connection)
    try:
        yield watch_connection
    finally:
        connection_created.disconnect(watch_connection)
        Atomic.__enter__, Atomic.__exit__ = entering, leaving


def _note(held: Held, sql: str, wrong: list):
    if met := INSERTING.match(sql):
        held.inserted.add(met.group(1))  # nobody else can lock what this transaction adds
        return
    if not (met := LOCKING.match(sql)):
        return
    table = met.group(1) or met.group(2)
    before = [name for name, place in held.locked.items() if name not in BEFORE_TEAMS and place != TEST]
    if table == TURN and TURN not in held.locked and TURN not in held.inserted and before:
        wrong.append(f"the team's turn comes after {before[0]} ({held.locked[before[0]]}), at {_place()}")
    if table not in held.inserted:
        held.locked.setdefault(table, _place())


def _place() -> str:
    """Return the innermost function of ours that is running, as "path:line name"."""
    frame = sys._getframe(2)
    while frame is not None and not _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return TEST
    return f"{frame.f_code.co_filename[len(str(CHECKOUT)) + 1 :]}:{frame.f_lineno} {frame.f_code.co_name}"


def _is_ours(filename: str) -> bool:
    return filename.startswith(OURS) and filename != TURNS
