"""Parts as copies of the supervisor: each with its own descriptors, signals and end."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support import CHECKOUT
from tests.support.waiting import until

BEGIN = """
import os, signal, sys, threading, time
from dashboard.processes.forked import Child
"""


def run(code: str) -> subprocess.CompletedProcess:
    """In a Python of its own: the tests have threads and descriptors that are no part of this."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(code)], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )


def lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_part_has_only_the_descriptors_that_it_was_given():
    done = run(
        """
        kept, other = os.open("/etc/hostname", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY)
        def main():
            names = {int(name): os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if
                     os.path.lexists(f"/proc/self/fd/{name}")}
            print(sorted(names) == [0, 1, 2, kept], names[kept], names[0])
        print(Child("part", main, keep=[kept]).wait())
        """
    )
    assert (done.stdout, done.stderr) == ("True /etc/hostname /dev/null\n0\n", "")


def test_signals_that_we_handle_end_it():
    done = run(
        """
        signal.signal(signal.SIGTERM, lambda *_: print("ours"))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        child = Child("part", lambda: time.sleep(60))
        child.send_signal(signal.SIGTERM)
        print(child.wait() == -signal.SIGTERM, signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGTERM})
        """
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_its_threads_finish_and_its_end_is_the_interpreters():
    done = run(
        """
        def later():
            time.sleep(0.3)
            print("thread")
        def main():
            import atexit
            atexit.register(print, "exit")
            threading.Thread(target=later).start()
            raise SystemExit(3)
        print(Child("part", main).wait())
        """
    )
    assert (done.stdout, done.stderr) == ("thread\nexit\n3\n", "")


def test_what_it_raises_is_told_and_ends_it_alone():
    done = run(
        """
        def main():
            raise ValueError("of the part")
        print(Child("part", main).wait())
        """
    )
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.endswith("ValueError: of the part\n")


def test_a_part_has_a_name_and_a_process_group_of_its_own():
    done = run(
        """
        def main():
            print(open("/proc/self/cmdline").read().rstrip("\\0"), open("/proc/self/comm").read().strip(),
                  os.getpgid(0) == os.getpid())
        Child("part", main, group=True).wait()
        Child("part", main).wait()
        """
    )
    assert done.stdout == "handrail part handrail-part True\nhandrail part handrail-part False\n"


def test_a_part_ends_with_the_supervisor():
    done = run(
        """
        child = Child("part", lambda: time.sleep(60))
        print(child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert done.returncode == -signal.SIGKILL
    until(lambda: not lives(int(done.stdout)))


def test_a_process_of_several_threads_is_not_copied():
    done = run(
        """
        threading.Thread(target=time.sleep, args=[60], daemon=True).start()
        Child("part", print)
        """
    )
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: part cannot be forked from a process of several threads\n")


def test_the_supervisor_of_a_product_has_one_thread_and_no_database(product):
    folder = Path(f"/proc/{product.process.pid}")
    assert len(list((folder / "task").iterdir())) == 1
    opened = [os.readlink(entry) for entry in (folder / "fd").iterdir()]
    assert [name for name in opened if "sqlite3" in name] == []


def test_the_sockets_of_the_desk_are_open_in_web_alone_of_the_parts(product):
    def sockets(pid: int) -> set:
        names = (os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
        return {name for name in names if name.startswith("socket:")}

    listening = {f"socket:[{line.split()[9]}]" for line in _tcp() if line.split()[3] == "0A"} & sockets(
        product.process.pid
    )
    shared = {name: listening & sockets(product.part_pid(name)) for name in ("web", "runner", "queue")}
    assert listening
    assert shared == {"web": listening, "runner": set(), "queue": set()}


def _tcp() -> list[str]:
    found = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    return [line for file in found if file.exists() for line in file.read_text().splitlines()[1:]]
