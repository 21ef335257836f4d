"""The untraced half of the box: runs cases one by one, ends what they leave, and says what they changed.

Each line of standard input is a case, each line of standard output its result. Standard library only.
"""

import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import ground

LIMIT = 0.4  # seconds of wall time for a command
GRACE = 0.1  # seconds for what it left in the background
TRACED = "execve,execveat,open,openat,openat2,creat,connect,bind,sendto,sendmsg"
TRACER = [
    *(["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "120", "-e", "signal=none", "-o", "/box/trace", "-e"]),
    f"trace={TRACED}",
]
PR_SET_CHILD_SUBREAPER = 36
LIMITS = {
    resource.RLIMIT_FSIZE: 4 << 20,
    resource.RLIMIT_NPROC: 400,
    resource.RLIMIT_NOFILE: 256,
    resource.RLIMIT_AS: 2 << 30,
    resource.RLIMIT_CORE: 0,
}


def main():
    listener = socket.create_server(("127.0.0.1", ground.PORT), backlog=64)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    ground.fill("/template")
    forker = subprocess.Popen(
        [*TRACER, sys.executable, "-I", "/harness/forker.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        preexec_fn=_limit,
    )
    print(json.dumps(_answer(forker)), flush=True)
    environment = ground.ENVIRONMENT | ({"LD_LIBRARY_PATH": "/tools/lib"} if os.path.isdir("/tools/lib") else {})
    own, before = _processes(), ground.state()
    for line in sys.stdin:
        case = json.loads(line) | {"environment": environment}
        forker.stdin.write(json.dumps(case) + "\n")
        result = _run(forker, own)
        after = ground.state()
        changes = ground.changed(before, after)
        result |= {"number": case["number"], "changes": changes, "leaks": _leaks(changes)}
        if changes:
            ground.fill("/template")
            before = ground.state()
        forker.stdin.write("\n")
        print(json.dumps(result), flush=True)
    forker.stdin.close()
    forker.wait()
    listener.close()


def _limit():
    for what, limit in LIMITS.items():
        # The file with the trace is written by strace, which has no need of a limit: it is that of its children.
        if what != resource.RLIMIT_FSIZE:
            resource.setrlimit(what, (limit, limit))


def _answer(forker):
    line = forker.stdout.readline()
    if not line:
        raise SystemExit("the traced half ended")
    return json.loads(line)


def _run(forker, own):
    """Wait for the command, then for what it left; end the rest. Return how it ended."""
    ready = select.poll()
    ready.register(forker.stdout, select.POLLIN)
    timed_out = not ready.poll(LIMIT * 1000)
    if timed_out:
        _end(own)
    result = {"timed_out": timed_out, "status": _answer(forker)["status"]}
    until = time.monotonic() + GRACE
    while _left(own) and time.monotonic() < until and not timed_out:
        time.sleep(0.002)
    _end(own)
    return result


def _left(own):
    """Return the processes of the case. Take the exit status of those that lost their parent."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return _processes() - own


def _end(own):
    until = time.monotonic() + 5
    while left := _left(own):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            raise SystemExit("what a command left does not end")


def _processes():
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _leaks(changes):
    with open("/box/output", "rb") as output:
        held = ["output"] if ground.TOKEN.encode() in output.read(1 << 20) else []
    return held + ground.leaks([path for path, how in changes.items() if how != "gone"])


if __name__ == "__main__":
    main()
