"""Run commands in a box of namespaces (bubblewrap), under strace, and return what each of them did."""

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from . import ground, trace

HERE = Path(__file__).parent
ORDINARY = 61_234  # the user id that commands run as when the harness runs as root
NEEDED = ("bwrap", "strace", "git", "bash")
SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
# The result of a command that the box did not survive.
ENDED = {"timed_out": False, "status": None, "changes": {}, "leaks": [], "ended": True}


def lack():
    """Return why no box can be had on this machine, or None."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} is not installed"
    words = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc strace -f --seccomp-bpf -o /dev/null true"
    tried = subprocess.run(words.split(), capture_output=True, text=True, **_ordinary())
    return f"bubblewrap and strace do not run here: {tried.stderr[-200:]}" if tried.returncode else None


class Box:
    """A folder with the template, from which each batch of commands gets a box of its own."""

    def __init__(self, folder, tools=None):
        self.folder = Path(folder)
        self.tools = tools
        ground.lay(str(self.folder / "template"))
        for name in ("scripts", "log"):
            (self.folder / name).mkdir()
        for script in ("ground.py", "forker.py", "inside.py"):
            shutil.copy(HERE / script, self.folder / "scripts")
        if os.geteuid() == 0:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)

    def run(self, cases):
        """Run cases ({number, shell, command}); yield (case, Deed) of each, also of one that ends the box."""
        cases = list(cases)
        while cases:
            results, traced = self._batch(cases)
            ended = next((at for at, case in enumerate(cases) if case["number"] not in results), len(cases))
            for case in cases[: ended + 1]:
                number = case["number"]
                yield case, trace.Deed(results.get(number, ENDED), traced.get(number, []))
            cases = cases[ended + 1 :]

    def _batch(self, cases):
        (self.folder / "log" / "trace").unlink(missing_ok=True)
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run(self._command(), input=lines, capture_output=True, text=True, **_ordinary())
        started, *results = map(json.loads, done.stdout.splitlines() or ["null"])
        if not started:
            raise RuntimeError(f"the box did not start: {done.stderr[-500:]}")
        results = {result["number"]: result for result in results}
        return results, trace.read(self.folder / "log" / "trace")

    def _command(self):
        words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
        words += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C"]
        for path in SYSTEM:
            words += ["--ro-bind-try", path, path]
        for name in ("bin", "lib", "lib64", "sbin"):
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        for name in ground.SETTINGS:
            words += ["--ro-bind", str(self.folder / "template" / "etc" / name), f"/etc/{name}"]
        words += ["--hostname", "box", "--proc", "/proc", "--dev", "/dev"]
        for root in ("/tmp", *ground.ROOTS):
            words += ["--tmpfs", root]
        for name, at in (("template", "/template"), ("scripts", "/harness")):
            words += ["--ro-bind", str(self.folder / name), at]
        words += ["--bind", str(self.folder / "log"), "/box"]
        if self.tools:
            words += ["--ro-bind", str(self.tools), "/tools"]
        words += ["--ro-bind", "/usr/bin/true", "/usr/bin/sleep"]  # what comes after a wait is of interest, too
        return [*words, "--chdir", ground.WORKSPACE, "--", "/usr/bin/python3", "-u", "/harness/inside.py"]


def _ordinary():
    return {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def box(tools=None):
    """Yield a Box whose folder is deleted afterwards, in memory where there is a place for it."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="handrail-fuzz-", dir=memory) as folder:
        yield Box(folder, tools)
