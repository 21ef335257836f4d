"""A Python beside a product in which an operator's commands run one after the other: starting one for each takes longer
than what it does. `Product.manage` is the way for tests of the commands themselves."""

import contextlib
import io
import json
import subprocess
import sys
import traceback
from pathlib import Path

from tests.support import CHECKOUT


class Console:
    def __init__(self, environment: dict, python: str = sys.executable, checkout: Path = CHECKOUT, **as_user):
        self._process = subprocess.Popen(
            [python, "-m", "tests.support.console"],
            cwd=checkout,
            env=environment | {"DJANGO_SETTINGS_MODULE": "dashboard.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **as_user,
        )

    def run(self, *words: str) -> str:
        """What the command prints. Whatever it raises fails the test."""
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the console ended with {self._process.wait()}"
        done = json.loads(line)
        assert not done["error"], done["error"]
        return done["printed"].strip()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _serve():
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connections

    for line in sys.stdin:
        name, *words = json.loads(line)
        printed, error = io.StringIO(), ""
        with contextlib.redirect_stdout(printed):
            try:
                call_command(name, *words)
            except Exception:
                error = traceback.format_exc()
            connections.close_all()  # as at the end of a command
        print(json.dumps({"printed": printed.getvalue(), "error": error}), flush=True)


if __name__ == "__main__":
    _serve()
