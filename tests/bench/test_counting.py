"""The benchmarks count the statements of the products that they start, all of them by one counter."""

import subprocess
import sys

from bench.calls.builds import COUNTING as OF_CALLS
from bench.idle.__main__ import COUNTING as OF_IDLE
from tests.support import CHECKOUT

PROGRAM = """
import os
from threading import Thread
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
from django.db import connection

def ask(times):
    with connection.cursor() as cursor:
        for _ in range(times):
            cursor.execute("SELECT 1")

threads = [Thread(target=ask, args=[2000]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if not (child := os.fork()):
    ask(3)
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
"""


def test_each_statement_of_each_process_is_counted_once(tmp_path):
    environment = {"PYTHONPATH": str(OF_IDLE), "COUNT_SQL_INTO": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    parent, child = done.stdout.split()
    counted = {path.name: int.from_bytes(path.read_bytes(), sys.byteorder) for path in tmp_path.iterdir()}
    assert counted == {parent: 8000, child: 3}


def test_all_benchmarks_have_one_counter():
    assert (
        [OF_CALLS / "sitecustomize.py"]
        == [OF_IDLE / "sitecustomize.py"]
        == [*CHECKOUT.glob("bench/**/sitecustomize.py")]
    )
