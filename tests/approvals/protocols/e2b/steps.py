"""Steps of a program that uses E2B's Python SDK, unmodified: `steps.py NAME ARGUMENT…` prints what it saw as JSON."""

import json
import sys
import time

from e2b import CommandExitException, Sandbox
from e2b.sandbox.commands.command_handle import PtySize


def life():
    """Create, list, connect, set the time-out, pause, resume and kill."""
    sandbox = Sandbox.create(timeout=600, metadata={"job": "one"})
    sandbox.files.write("kept.txt", "kept")
    found = [one.sandbox_id for one in Sandbox.list(query=None).next_items()]
    sandbox.set_timeout(1200)
    about = sandbox.get_info()
    paused, again = sandbox.pause(), sandbox.pause()
    state = sandbox.get_info().state.value
    resumed = Sandbox.connect(sandbox.sandbox_id)
    kept, running = resumed.files.read("kept.txt"), resumed.is_running()
    killed, gone = resumed.kill(), resumed.kill()
    return {
        "id": sandbox.sandbox_id,
        "listed": sandbox.sandbox_id in found,
        "metadata": about.metadata,
        "seconds": (about.end_at - about.started_at).total_seconds(),
        "paused": [paused, again, state],
        "kept": kept,
        "running": [running, resumed.is_running()],
        "killed": [killed, gone],
    }


def run():
    """Run commands: output, variables, folder, exit status, in the background, killed, and past the time-out."""
    sandbox = Sandbox.create()
    heard = []
    done = sandbox.commands.run("echo one; sleep 0.2; echo $WHO", envs={"WHO": "two"}, on_stdout=heard.append)
    folder = sandbox.commands.run("mkdir -p below && cd below && pwd").stdout.strip()
    inside = sandbox.commands.run("pwd", cwd=folder).stdout.strip()
    try:
        sandbox.commands.run("echo oh; exit 3")
        failed = None
    except CommandExitException as error:
        failed = [error.exit_code, error.stdout]
    handle = sandbox.commands.run("sleep 300", background=True)
    pids = [one.pid for one in sandbox.commands.list()]
    again = sandbox.commands.connect(handle.pid)
    killed = [sandbox.commands.kill(handle.pid), None]
    try:
        again.wait()
    except CommandExitException as error:
        killed[1] = error.exit_code
    unknown = sandbox.commands.kill(1)
    try:
        sandbox.commands.run("sleep 60", timeout=2)
        late = None
    except Exception as error:
        late = type(error).__name__
    return {
        "id": sandbox.sandbox_id,
        "stdout": done.stdout,
        "heard": "".join(heard),
        "folder": [folder, inside],
        "failed": failed,
        "listed": handle.pid in pids,
        "killed": killed,
        "unknown": unknown,
        "late": late,
    }


def pty():
    """Open a terminal, type into it, set its size, follow it from a second connection, and kill it."""
    sandbox = Sandbox.create()
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100), envs={"WHO": "me"}, cwd="/tmp")
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; pwd; echo hello-$WHO; exit 5\n")
    seen = b""
    try:
        for _, _, data in terminal:
            seen += data or b""
        terminal.wait()
    except CommandExitException as error:
        code = error.exit_code
    other = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.stream_input(other.pid, [b"echo in-", b"pieces\n"])
    time.sleep(1)
    killed = sandbox.pty.kill(other.pid)
    return {"id": sandbox.sandbox_id, "seen": seen.decode(), "exit": code, "killed": killed}


def files():
    """Write, read, list, look at, move, remove and watch files."""
    sandbox = Sandbox.create()
    box = sandbox.files
    box.write("a/one.txt", "eins ü")
    box.write_files([{"path": "a/two.bin", "data": bytes(range(256))}, {"path": "b/three.txt", "data": "3"}])
    box.write("packed.txt", "x" * 100_000, gzip=True)
    listed = [[entry.path, entry.type.value, entry.size] for entry in box.list("a")]
    deep = sorted(entry.path for entry in box.list("/workspace", depth=2))
    made, again = box.make_dir("c/d"), box.make_dir("c/d")
    moved = box.rename("a/one.txt", "c/d/uno.txt").path
    watcher = box.watch_dir("c", recursive=True)
    box.write("c/new.txt", "new")
    sandbox.commands.run("echo more >> c/d/uno.txt")
    events = [[event.type.value, event.name] for event in watcher.get_new_events()]
    watcher.stop()
    about = box.get_info("c/d/uno.txt")
    box.remove("b")
    box.remove("never-there")
    try:
        box.read("b/three.txt")
        missing = None
    except Exception as error:
        missing = type(error).__name__
    return {
        "id": sandbox.sandbox_id,
        "text": box.read("c/d/uno.txt"),
        "bytes": list(box.read("a/two.bin", format="bytes")) == list(range(256)),
        "packed": len(box.read("packed.txt")),
        "streamed": sum(map(len, box.read("packed.txt", format="stream"))),
        "listed": listed,
        "deep": deep,
        "made": [made, again],
        "moved": moved,
        "events": events,
        "permissions": about.permissions,
        "exists": [box.exists("a"), box.exists("b")],
        "missing": missing,
    }


def attempt(verb, key, *words):
    """Do one thing in a sandbox that is there, and print what came, or the error."""
    try:
        sandbox = Sandbox.connect(key)
        if verb == "run":
            return {"stdout": sandbox.commands.run(words[0], timeout=float(words[1])).stdout}
        if verb == "write":
            return {"path": sandbox.files.write(words[0], words[1]).path}
        if verb == "read":
            return {"text": sandbox.files.read(words[0])}
        return {"id": sandbox.sandbox_id}
    except Exception as error:
        return {"error": type(error).__name__, "words": str(error)}


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    print(json.dumps({"life": life, "run": run, "pty": pty, "files": files, "attempt": attempt}[name](*rest)))
