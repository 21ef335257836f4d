"""Counts the statements that this process sends to a database: a file for each process, with its name and the count.

`bench.calls` puts this folder on the PYTHONPATH of the products that it compares, so that both are counted alike.
"""

import os
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(os.environ["BENCH_COUNTS"])


class Counter:
    def __init__(self):
        self.lock, self.pid, self.count, self.file = threading.Lock(), None, 0, None

    def add(self):
        with self.lock:
            if self.pid != os.getpid():  # forked
                self.pid, self.count = os.getpid(), 0
                self.file = os.open(FOLDER / str(self.pid), os.O_RDWR | os.O_CREAT, 0o666)
            self.count += 1
            os.pwrite(self.file, b"%12d" % self.count, 0)


class OnImport(MetaPathFinder):
    """Wraps Django's cursor once it is imported."""

    def find_spec(self, name, path, target=None):
        if name != "django.db.backends.utils":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        run = spec.loader.exec_module

        def run_and_wrap(module):
            run(module)
            for method in ("_execute", "_executemany"):
                setattr(module.CursorWrapper, method, counted(getattr(module.CursorWrapper, method)))

        spec.loader.exec_module = run_and_wrap
        return spec


def counted(execute):
    def wrapper(self, *args):
        counter.add()
        return execute(self, *args)

    return wrapper


counter = Counter()
sys.meta_path.insert(0, OnImport())
