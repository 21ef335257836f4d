"""The snapshot engine on a bucket, beside restic on the same bucket and itself in a folder.

The server is SeaweedFS on this machine, so it takes processor time from both sides. What obstore alone reaches is
measured in the same run, and what the network adds may be no more than that by a fifth.
"""

import os
import shutil
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.buckets import seaweed

if TYPE_CHECKING:
    from bench.store.__main__ import Bench

STORE = [sys.executable, "-m", "workspaces.store"]
PIECE, PIECES = 32 << 20, 8


class Line:
    """Measure the bucket without the engine: seconds of one round trip, bytes each second of puts and gets."""

    def __init__(self, client):
        data = [os.urandom(PIECE) for _ in range(PIECES)]
        client.put("line/small", b"x")
        self.round_trip = statistics.median(_seconds(lambda: client.size("line/small")) for _ in range(30))
        with ThreadPoolExecutor(3) as pool:
            put = _seconds(lambda: list(pool.map(client.put, map("line/{}".format, range(PIECES)), data)))
        with ThreadPoolExecutor(4) as pool:
            get = _seconds(lambda: list(pool.map(client.get, map("line/{}".format, range(PIECES)))))
        self.put, self.get = PIECE * PIECES / put, PIECE * PIECES / get
        client.delete([f"line/{number}" for number in range(PIECES)])
        print(f"  round trip {self.round_trip * 1000:.1f} ms, MB/s: put {self.put / 1e6:.0f}, get {self.get / 1e6:.0f}")


def measure(bench: "Bench") -> None:
    """Run all works on one server."""

    def missing(name: str, reason: str):
        raise SystemExit(f"The works on a bucket need it: {reason}.")

    bench.fresh("seaweed", "bucket-copies")
    with seaweed(bench.path("seaweed"), missing) as server:
        bench.env |= server.environ | {"XDG_CACHE_HOME": str(bench.path("bucket-copies"))}
        bench.env["RESTIC_REPOSITORY"] = f"s3:{server.url}/{server.address('restic').removeprefix('s3://')}"
        line = Line(server.client("line"))
        _first(bench, server, line)
        _one_file(bench, server, line)
        _restore(bench, server, line)
    bench.fresh("seaweed", "bucket-copies")


def _first(bench: "Bench", server, line: Line) -> None:
    turn = iter(range(1000))

    def on_bucket():
        bench.address = server.address(f"store-{next(turn)}")
        bench.run([*STORE, "init", bench.address])
        return bench.seconds([*STORE, "snapshot", bench.address, bench.tree])

    def in_folder():
        bench.fresh("store")
        bench.run([*STORE, "init", bench.path("store")])
        return bench.seconds([*STORE, "snapshot", bench.path("store"), bench.tree])

    def restic():
        bench.fresh("restic-cache")
        bench.env["RESTIC_REPOSITORY"] = bench.env["RESTIC_REPOSITORY"].rstrip("-0123456789") + f"-{next(turn)}"
        bench.run(["restic", "init"])
        return bench.seconds(["restic", "backup", "-q", bench.tree])

    found = bench.medians(bucket=on_bucket, folder=in_folder, restic=restic)
    bench.stored = sum(path.stat().st_size for path in Path(bench.path("store"), "packs").iterdir())
    most = 1.3 * found["folder"] + bench.stored / (0.8 * line.put)
    bench.row("first snapshot, bucket", found["bucket"], "1.3 folder + transfer", most, 1.0)
    bench.row("first snapshot, bucket", found["bucket"], "restic, same bucket", found["restic"], 0.5)


def _one_file(bench: "Bench", server, line: Line) -> None:
    edited = bench.tree / "node_modules" / "react" / "index.js"
    before = edited.read_bytes()

    def edit(command):
        def run():
            edited.write_bytes(before + os.urandom(8))
            time.sleep(0.05)
            return bench.seconds(command)

        return run

    for store in (bench.address, bench.path("store")):
        bench.run([*STORE, "snapshot", store, bench.tree])
    found = bench.medians(
        bucket=edit([*STORE, "snapshot", bench.address, bench.tree]),
        folder=edit([*STORE, "snapshot", bench.path("store"), bench.tree]),
        restic=edit(["restic", "backup", "-q", bench.tree]),
    )
    edited.write_bytes(before)
    most = 2 * found["folder"] + 3 * line.round_trip
    bench.row("one file changed, bucket", found["bucket"], "2 folder + 3 round trips", most, 1.0)
    bench.row("one file changed, bucket", found["bucket"], "restic, same bucket", found["restic"], 0.2)


def _restore(bench: "Bench", server, line: Line) -> None:
    """Restore on a host without copies."""
    taken = [
        bench.run([*STORE, "snapshot", store, bench.tree]).split('"tree": "')[1][:64]
        for store in (bench.address, bench.path("store"))
    ]

    def into(command):
        def run():
            bench.fresh("out")
            bench.path("out").mkdir()
            shutil.rmtree(bench.path("bucket-copies"), ignore_errors=True)
            return bench.seconds(command)

        return run

    found = bench.medians(
        bucket=into([*STORE, "restore", bench.address, taken[0], bench.path("out")]),
        folder=into([*STORE, "restore", bench.path("store"), taken[1], bench.path("out")]),
        restic=into(["restic", "restore", "-q", "latest", "--target", bench.path("out")]),
    )
    most = 1.3 * found["folder"] + bench.stored / (0.8 * line.get)
    bench.row("restore, bucket, no copies", found["bucket"], "1.3 folder + transfer", most, 1.0)
    bench.row("restore, bucket, no copies", found["bucket"], "restic, same bucket", found["restic"], 0.8)
    bench.fresh("out")


def _seconds(work) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
