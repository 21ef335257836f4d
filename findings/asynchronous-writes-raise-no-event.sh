#!/usr/bin/env bash
# Linux (seen with 6.18, ext4): writes by `io_submit` raise no event of inotify or fanotify; the close after them does.
#
# Behaviour: `write` and io_uring raise IN_MODIFY when they have written. Asynchronous I/O (aio, `io_submit`) calls the file
# system directly, so a watcher hears nothing until the last descriptor is closed (IN_CLOSE_WRITE). Stores through a
# shared mapping are as silent, which inotify(7) says; of io_submit it says nothing. Who relies on events has to treat a
# file that is open for writing as one that changes: F_SETLEASE with F_RDLCK is refused (EAGAIN) as long as it is.
#
# Output seen: "write: 1 event, io_submit: 0 events, close: 1 event; lease while open: refused". Exits with 1 when that
# changes. Needs python3 and an x86-64 kernel.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seen=$(python3 - "$work" <<'PY'
import ctypes, fcntl, os, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
path = os.path.join(sys.argv[1], "file")
open(path, "wb").write(bytes(100))
events = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(events, path.encode(), 0x2 | 0x8) > 0  # IN_MODIFY, IN_CLOSE_WRITE


def count():
    try:
        data = os.read(events, 4096)
    except BlockingIOError:
        return "0 events"
    number = len(data) // 16
    return f"{number} event" + "s" * (number != 1)


fd = os.open(path, os.O_RDWR)
os.pwrite(fd, b"a", 0)
by_write = count()
context = ctypes.c_ulong(0)
assert libc.syscall(206, 1, ctypes.byref(context)) == 0  # io_setup
held = ctypes.create_string_buffer(b"b")
fields = (0, 0, 0, 1, 0, fd, ctypes.addressof(held), 1, 1, 0, 0, 0)
block = ctypes.create_string_buffer(struct.pack("<QIIHhIQQqQII", *fields))
assert libc.syscall(209, context, 1, (ctypes.c_void_p * 1)(ctypes.addressof(block))) == 1  # io_submit
assert libc.syscall(208, context, 1, 1, ctypes.create_string_buffer(32), None) == 1  # io_getevents
assert os.pread(fd, 2, 0) == b"ab"
by_aio = count()
reader = os.open(path, os.O_RDONLY)
try:
    fcntl.fcntl(reader, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    lease = "given"
except BlockingIOError:
    lease = "refused"
os.close(fd)
print(f"write: {by_write}, io_submit: {by_aio}, close: {count()}; lease while open: {lease}")
PY
)
echo "$seen"
[ "$seen" = "write: 1 event, io_submit: 0 events, close: 1 event; lease while open: refused" ]
