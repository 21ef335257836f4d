"""A program that changes a tree in 24 ways and tells nobody: `python -m … TREE OUTSIDE SEED`.

It reads how many operations to do, one number a line, does them, and answers each line with the kinds that it did.
Mappings, descriptors and rings stay open from one line to the next.
"""

import json
import mmap
import os
import random
import shutil
import stat
import subprocess
import sys
from contextlib import suppress

from tests.workspaces.store.silent_writers import Aio, Uring, clone, exchange, link_descriptor, mount, unmount

KEPT = 12  # mappings and descriptors that stay open


class Program:
    def __init__(self, tree, outside, seed):
        self.tree, self.outside, self.random = tree, outside, random.Random(seed)
        self.descriptors, self.mappings, self.names, self.count = [], [], [], 0
        self.ways = {name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")}
        self.aio, self.uring = Aio(), self._or_none(Uring)
        self.bound, self.over = os.path.join(outside, "bound"), os.path.join(outside, "over")
        self._mount()
        self.files, self.folders = [], []

    @staticmethod
    def _or_none(make):
        try:
            return make()
        except OSError:
            return None

    def _mount(self):
        """Mount the tree a second time, and a folder of it as the upper one of an overlay."""
        upper = os.path.join(self.tree, "upper")
        for name in (upper, self.bound, self.over, *(os.path.join(self.outside, name) for name in ("low", "work"))):
            os.makedirs(name, exist_ok=True)
        mount(self.tree, self.bound, "", 4096, "")
        options = f"lowerdir={self.outside}/low,upperdir={upper},workdir={self.outside}/work"
        mount("overlay", self.over, "overlay", 0, options)

    def close(self):
        self.descriptors.clear()
        self.mappings.clear()
        unmount(self.bound)
        unmount(self.over)

    def look(self):
        self.files, self.folders = [], []
        for at, _, names in os.walk(self.tree):
            self.folders.append(at)
            paths = (os.path.join(at, name) for name in names)
            self.files += [path for path in paths if stat.S_ISREG(os.lstat(path).st_mode)]

    def run(self, number):
        self.look()
        done = {}
        for _ in range(number):
            way = self.random.choice(list(self.ways))
            with suppress(OSError, ValueError, shutil.Error):  # what it would change is gone by now
                self.ways[way]()
                done[way] = done.get(way, 0) + 1
        return done

    # -- what it takes -------------------------------------------------------------------------------------------

    def file(self):
        return self.random.choice(self.files)

    def folder(self):
        return self.random.choice(self.folders)

    def new(self, folder=None):
        self.count += 1
        return os.path.join(folder or self.folder(), f"n{self.count}")

    def data(self, most=3000):
        return self.random.randbytes(self.random.randrange(1, most))

    def descriptor(self):
        """Return one of the open descriptors; at times a file is opened anew, and the oldest one closed."""
        if len(self.descriptors) < KEPT or self.random.random() < 0.1:
            self.descriptors.append(open(self.file(), "r+b", buffering=0))  # noqa: SIM115 (it stays open)
            del self.descriptors[:-KEPT]
        return self.random.choice(self.descriptors).fileno()

    # -- ways ----------------------------------------------------------------------------------------------------

    def do_write(self):
        with open(self.file(), "wb") as file:
            file.write(self.data())

    def do_append(self):
        with open(self.file(), "ab") as file:
            file.write(self.data(50))

    def do_same_size_and_time_set_back(self):
        path = self.file()
        found = os.stat(path)
        with open(path, "r+b") as file:
            file.write(self.random.randbytes(found.st_size))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def do_time(self):
        os.utime(self.random.choice([self.file(), self.folder()]), ns=(1, self.random.randrange(10**18)))

    def do_truncate(self):
        os.truncate(self.file(), self.random.randrange(4000))

    def do_descriptor_opened_before(self):
        os.pwrite(self.descriptor(), self.data(100), self.random.randrange(2000))

    def do_truncate_descriptor(self):
        os.ftruncate(self.descriptor(), self.random.randrange(4000))

    def do_allocate(self):
        os.posix_fallocate(self.descriptor(), self.random.randrange(3000), 2000)

    def do_mapping(self):
        if len(self.mappings) < KEPT or self.random.random() < 0.1:
            with open(self.file(), "r+b") as file:
                self.mappings.append(mmap.mmap(file.fileno(), 0))
            del self.mappings[:-KEPT]
        mapping = self.random.choice(self.mappings)
        mapping[self.random.randrange(len(mapping))] = self.random.randrange(256)

    def do_asynchronous(self):
        self.aio.write(self.descriptor(), self.data(60), self.random.randrange(2000))

    def do_ring(self):
        if self.uring:
            self.uring.write(self.descriptor(), self.data(60), self.random.randrange(2000))

    def do_name_outside(self):
        path = os.path.join(self.outside, f"name{self.random.randrange(8)}")
        if not os.path.exists(path) or self.random.random() < 0.2:
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.link(self.file(), path)
        with open(path, "r+b") as file:
            file.write(self.data(20))

    def do_link_inside(self):
        os.link(self.file(), self.new())

    def do_bind_mount(self):
        with open(os.path.join(self.bound, os.path.relpath(self.file(), self.tree)), "r+b") as file:
            file.write(self.data(30))

    def do_overlay(self):
        path = os.path.join(self.over, f"o{self.random.randrange(5)}")
        with open(path, "ab") as file:
            file.write(self.data(30))
        if self.random.random() < 0.2:
            self.descriptors.append(open(path, "r+b", buffering=0))  # noqa: SIM115 (it stays open)

    def do_reflink(self):
        clone(self.descriptor(), self.file())

    def do_send(self):
        with open(self.file(), "rb") as file:
            os.sendfile(self.descriptor(), file.fileno(), 0, 100)

    def do_new(self):
        with open(self.new(), "wb") as file:
            file.write(self.data())

    def do_nameless_then_linked(self):
        fd = os.open(self.folder(), os.O_TMPFILE | os.O_RDWR)
        os.write(fd, self.data(100))
        link_descriptor(fd, self.new())
        self.descriptors.append(os.fdopen(fd, "r+b", buffering=0))

    def do_rename(self):
        os.rename(self.file(), self.random.choice([self.file(), self.new()]))

    def do_rename_folder(self):
        folder = self.folder()
        if folder not in (self.tree, os.path.join(self.tree, "upper")):
            aside = os.path.join(self.outside, f"aside{self.random.randrange(4)}")
            if os.path.exists(aside):
                for path in [os.path.join(aside, name) for name in os.listdir(aside)][:1]:
                    if os.path.isfile(path) and not os.path.islink(path):
                        self.mappings.append(mmap.mmap(os.open(path, os.O_RDWR), 0))
                os.rename(aside, self.new(self.tree))
            else:
                os.rename(folder, self.random.choice([aside, self.new(self.tree)]))

    def do_exchange(self):
        exchange(self.folder(), self.folder())

    def do_remove(self):
        if self.random.random() < 0.05:
            folder = self.folder()
            if os.path.relpath(folder, self.tree).count("/") > 0 and not folder.startswith(f"{self.tree}/upper"):
                shutil.rmtree(folder)
        else:
            os.unlink(self.file())

    def do_folder(self):
        folder = self.new()
        os.makedirs(os.path.join(folder, "a", "b"))
        for at in ("a/x", "a/b/y"):
            with open(os.path.join(folder, at), "wb") as file:
                file.write(self.data(80))

    def do_attributes(self):
        path = self.random.choice([self.file(), self.folder()])
        os.chmod(path, self.random.choice([0o644, 0o755, 0o700]))
        os.setxattr(path, "user.mark", self.data(8))
        with suppress(OSError):  # which only root may
            os.chown(path, self.random.randrange(3), -1)

    def do_symlink(self):
        path = self.file()
        os.unlink(path)
        os.symlink(self.random.choice(["a", "b/c"]), path)

    def do_other_program(self):
        if self.random.random() < 0.05:
            subprocess.run(["sh", "-c", 'echo more >> "$0"; mkfifo "$0.fifo"', self.file()], check=False)


def main():
    tree, outside, seed = sys.argv[1:]
    program = Program(tree, outside, int(seed))
    print(json.dumps(sorted(program.ways)), flush=True)
    try:
        for line in sys.stdin:
            print(json.dumps(program.run(int(line))), flush=True)
    finally:
        program.close()


if __name__ == "__main__":
    main()
