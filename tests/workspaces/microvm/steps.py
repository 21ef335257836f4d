"""Something happens at a step of the driver: just before a function of it carries out a line."""

import linecache
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from workspaces.drivers import local, microvm

FILES = {str(path) for path in (*Path(microvm.__file__).parent.glob("*.py"), Path(local.__file__))}
# What a pause and a resume do one after the other, as `function: words of the line`.
PAUSE = (
    "_pause: mark.touch()",
    'hold: client.request("hold")',
    'save: await client.execute("stop")',
    'save: await client.execute("migrate", {"uri": "fd:memory"})',
    "write: return Kept(raw, size)",
    "_keep_it: memory.commit(target.path)",
    "commit: flush_folder(path.parent)",
    "_keep_it: self._write(replace(",
    '_keep_it: await monitor.execute("quit")',
    "_pause: mark.unlink()",
)
RESUME = (
    "_launch: launcher = _spawn_launcher(",
    '_launch: launch = {"cgroups"',
    'load: await client.execute("migrate-incoming"',
    "read: yield expand.decompress(data)",
    "fill: await asyncio.to_thread(self._disks_will_change, spec)",
    "_disks_will_change: for folder in",
    'fill: await client.execute("cont")',
    "_launched: (self._folder(spec.run_id) / FILLING).unlink()",
    "_await_init: pid = self._init_pid(record)",
)


@contextmanager
def at(step: str, happens):
    """`happens()` once, in the thread that comes to the step; the block must come to it."""
    function, _, words = step.partition(": ")
    came = []

    def trace(frame, event, _argument):
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name != function or came:
            return None
        if event == "line" and words in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
            came.append(step)
            happens()
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)
    assert came, f"nothing came to the step {step!r}"
