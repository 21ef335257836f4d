#!/usr/bin/env bash
# Linux (seen with 6.18, ext4): a watch on a folder hears nothing of a second name of its file, nor of writes by it.
#
# Behaviour: `link` raises IN_ATTRIB of the file's inode and IN_CREATE of the folder of the new name. What is written by that
# name is an event of the inode and of that folder. A watch on the folder of the first name is told of neither, though its
# file has other content; a watch on the file is told of both. Who watches folders alone has to stat every file.
#
# Output seen: "link: folder 0 events, file 1 event; write: folder 0 events, file 1 event". Exits with 1 when that changes.
# Needs python3.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seen=$(python3 - "$work" <<'PY'
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
tree, outside = os.path.join(sys.argv[1], "tree"), os.path.join(sys.argv[1], "outside")
os.mkdir(tree)
os.mkdir(outside)
path, second = os.path.join(tree, "file"), os.path.join(outside, "second")
open(path, "wb").close()
CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200  # MODIFY, ATTRIB, MOVED, CREATE, DELETE
watches = []
for watched in (tree, path):
    watches.append(libc.inotify_init1(os.O_NONBLOCK))
    assert libc.inotify_add_watch(watches[-1], watched.encode(), CHANGES) > 0


def count(watch):
    try:
        data, number = os.read(watch, 4096), 0
    except BlockingIOError:
        return "0 events"
    while data:
        data, number = data[16 + int.from_bytes(data[12:16], "little") :], number + 1
    return f"{number} event" + "s" * (number != 1)


def counts():
    return f"folder {count(watches[0])}, file {count(watches[1])}"


os.link(path, second)
by_link = counts()
fd = os.open(second, os.O_WRONLY)
os.write(fd, b"by another name")
print(f"link: {by_link}; write: {counts()}")
PY
)
echo "$seen"
[ "$seen" = "link: folder 0 events, file 1 event; write: folder 0 events, file 1 event" ]
