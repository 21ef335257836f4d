"""Where a file has data, and where it has holes. Runs inside guests too."""

import errno
import os


def extents(fd: int, found: os.stat_result) -> list[tuple[int, int, bool]]:
    """Return (start, end, is data) for the runs of data and the holes of a file, in order."""
    size = found.st_size
    if found.st_blocks * 512 >= size:
        return [(0, size, True)]
    runs, at = [], 0
    while at < size:
        try:
            start = min(os.lseek(fd, at, os.SEEK_DATA), size)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            start = size  # nothing but a hole up to the end
        if start > at:
            runs.append((at, start, False))
        at = start
        if start < size:
            at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
            runs.append((start, at, True))
    return runs
