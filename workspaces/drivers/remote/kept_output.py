"""What a program has printed so far, kept beside it for a runner that did not hear it.

Standard library only, any Python from 3.9. It lies in a file without a name, which no program can open, and where there
is none such in memory. Of more than `cap` bytes the newest ones are kept.
"""

import os

CAP = 16 << 20  # bytes of one program
MOST_SIZES = 1000


class KeptOutput:
    """The output of one program; `total` counts all of its bytes, those from `start` on are there."""

    def __init__(self, cap=CAP, folder="/tmp"):
        self.cap, self.total = cap, 0
        self.sizes = []  # [offset, cols, rows] of each change of the terminal's size
        self.broken = False  # a part of it is missing, because a disk was full or nobody was to have it
        self.end = None  # the message about the program's end
        self.fd = unnamed_file(folder)

    @property
    def start(self):
        return max(0, self.total - self.cap)

    def write(self, data):
        try:
            while data and not self.broken:
                at = self.total % self.cap
                written = os.pwrite(self.fd, data[: self.cap - at], at)
                self.total += written
                data = data[written:]
        except OSError:
            self.broken = True

    def read(self, offset, size):
        """Return up to `size` bytes from an offset that is there; b"" at the end."""
        at = offset % self.cap
        return os.pread(self.fd, min(size, self.total - offset, self.cap - at), at)

    def resized(self, cols, rows):
        if self.sizes and self.sizes[-1][1:] == [cols, rows]:
            return
        self.sizes = [*self.sizes[-MOST_SIZES:], [self.total, cols, rows]]

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
        self.fd, self.broken = None, True


def unnamed_file(folder):
    """Return the descriptor of an empty file that has no name and is closed in programs."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.memfd_create("output", os.MFD_CLOEXEC)
