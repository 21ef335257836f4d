"""The snapshot engine against restic, borg, git, tar and rsync, all in one run: `python -m bench.store`.

Each figure is a ratio of medians; process start and a sync of the file system count for everyone; the page cache is
warm. On a machine that others use too, `--cpu` compares processor time (user and system, of all processes) instead.
Our bytecode is compiled once, as an installation has it, whatever this shell says of writing it.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.store import tree as trees
from workspaces.store import LocalTree, Store

STORE = [sys.executable, "-m", "workspaces.store"]
TOOLS = {"restic": "restic", "borg": "borgbackup", "git": "git", "rsync": "rsync", "tar": "tar", "zstd": "zstd"}


class Bench:
    """A scratch folder with the tree, our store and those of the peers."""

    def __init__(self, scratch: Path, rounds: int, minutes: float, patience: float = 0.0, cpu: bool = False):
        self.scratch, self.rounds, self.patience, self.cpu = scratch, rounds, patience, cpu
        self.deadline = time.monotonic() + 60 * minutes
        self.fewest = rounds  # rounds that any work had
        self.tree = trees.build(scratch / "tree")
        self.rows: list[tuple] = []
        self.env = {
            **os.environ, "RESTIC_PASSWORD": "bench", "RESTIC_REPOSITORY": str(scratch / "restic"),
            "RESTIC_CACHE_DIR": str(scratch / "restic-cache"),
            "BORG_REPO": str(scratch / "borg"), "BORG_BASE_DIR": str(scratch / "borg-base"),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
            "GIT_DIR": str(scratch / "git"), "GIT_WORK_TREE": str(self.tree),
            "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"),
        }  # fmt: skip
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        # Borg's archives have numbers; those of an earlier run count, so that a work can be measured by itself.
        self.archives = len(self.run(["borg", "list", "--short"]).split()) if self.path("borg").exists() else 0

    def path(self, name: str) -> Path:
        return self.scratch / name

    def fresh(self, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.path(name), ignore_errors=True)
        os.sync()

    def run(self, command: str | list, **options) -> str:
        shell = isinstance(command, str)
        done = subprocess.run(command, shell=shell, env=self.env, capture_output=True, text=True, **options)
        if done.returncode:
            raise SystemExit(f"{command}: {done.stderr[-500:]}")
        return done.stdout

    def seconds(self, command: str | list, **options) -> float:
        begun = self.clock()
        self.run(command, **options)
        self.run(["sync", "-f", self.scratch])
        return self.clock() - begun

    def clock(self) -> float:
        """Return the wall-clock time, or the processor time of this process and of those that it waited for."""
        if not self.cpu:
            return time.perf_counter()
        # To the microsecond, which os.times is not.
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    def borg_create(self) -> float:
        self.archives += 1
        return self.seconds(["borg", "create", "-C", "zstd,1", f"::{self.archives}", self.tree])

    def row(self, work: str, ours: float, peer: str, theirs: float, limit: float) -> None:
        self.rows.append((work, ours, peer, theirs, ours / theirs, limit))
        mark = "ok" if ours <= limit * theirs else "MISSED"
        print(
            f"{work:40} {ours:9.3f}  {peer:22} {theirs:9.3f}  ratio {ours / theirs:6.3f}  at most {limit:5.2f}  {mark}"
        )
        sys.stdout.flush()

    def medians(self, **work) -> dict[str, float]:
        """Run each piece of work in turn, `rounds` times or while there is time, and return the medians."""
        found: dict[str, list[float]] = {name: [] for name in work}
        for _ in self.turns():
            for name, run in work.items():
                wait_for_calm(self.patience)
                found[name].append(run())
        return {name: statistics.median(values) for name, values in found.items()}

    def turns(self) -> Iterator[int]:
        """Count the rounds of one work: all of them, or once the time is over no more than one."""
        for number in range(self.rounds):
            if number and time.monotonic() > self.deadline:
                self.fewest = min(self.fewest, number)
                return
            yield number

    def table(self) -> None:
        """Print every row once more, side by side with its limit."""
        print(f"\n{'work':40} {'ours':>10} {'peer':>24} {'theirs':>10} {'ratio':>7} {'at most':>8}")
        for work, ours, peer, theirs, ratio, limit in self.rows:
            mark = "hit" if ratio <= limit else "MISSED"
            print(f"{work:40} {ours:10.3f} {peer:>24} {theirs:10.3f} {ratio:7.3f} {limit:8.2f}  {mark}")

    # -- the works -------------------------------------------------------------------------------------------------

    def first(self) -> None:
        def ours():
            self.fresh("store")
            self.run([*STORE, "init", self.path("store")])
            return self.seconds([*STORE, "snapshot", self.path("store"), self.tree])

        def restic():
            self.fresh("restic", "restic-cache")
            self.run(["restic", "init"])
            return self.seconds(["restic", "backup", "-q", self.tree])

        def tar():
            return self.seconds(f"tar -C {self.tree} -cf - . | zstd -q -1 -T2 -f -o {self.path('t.tar.zst')}")

        def borg():
            self.fresh("borg", "borg-base")
            self.run(["borg", "init", "-e", "none"])
            return self.borg_create()

        found = self.medians(ours=ours, restic=restic, borg=borg, tar=tar)
        self.row("first snapshot", found["ours"], "restic", found["restic"], 0.35)
        self.row("first snapshot", found["ours"], "borg", found["borg"], 1.0)
        self.row("first snapshot", found["ours"], "tar | zstd -1 -T2", found["tar"], 1.0)
        sizes = {
            name: sum(p.stat().st_size for p in self.path(name).rglob("*") if p.is_file())
            for name in ("store", "restic", "borg")
        }
        self.row("store size (MB)", sizes["store"] / 1e6, "restic", sizes["restic"] / 1e6, 1.1)
        self.row("store size (MB)", sizes["store"] / 1e6, "borg", sizes["borg"] / 1e6, 1.1)

    def again(self) -> None:
        self.fresh("git")
        self.run(
            "env -u GIT_WORK_TREE git init -q --bare $GIT_DIR && git config core.bare false"
            " && git config core.compression 1 && git add -A && git write-tree"
        )
        edited = self.tree / "node_modules" / "react" / "index.js"
        before = edited.read_bytes()
        # Two rounds, so that neither side still distrusts what is new.
        for _ in range(2):
            time.sleep(0.1)
            self.run([*STORE, "snapshot", self.path("store"), self.tree])
        store = Store.open(self.path("store"))

        def engine():
            begun = self.clock()
            store.snapshot(LocalTree(self.tree), hold=0)
            return self.clock() - begun

        def walk():
            begun = self.clock()
            trees.walk(os.fspath(self.tree))
            return self.clock() - begun

        for work, touch in (("nothing changed", False), ("one file changed", True)):

            def edit(run, touch=touch):
                def edited_first():
                    if touch:
                        edited.write_bytes(before + os.urandom(8))
                        time.sleep(0.05)
                    return run()

                return edited_first

            found = self.medians(
                engine=edit(engine), walk=walk,
                ours=edit(lambda: self.seconds([*STORE, "snapshot", self.path("store"), self.tree])),
                git=edit(lambda: self.seconds("git add -A && git write-tree")),
                restic=edit(lambda: self.seconds(["restic", "backup", "-q", self.tree])),
                borg=edit(self.borg_create),
            )  # fmt: skip
            self.row(f"{work} (engine)", found["engine"], "scandir + lstat", found["walk"], 1.5)
            self.row(f"{work} (process)", found["ours"], "git add + write-tree", found["git"], 1.2)
            self.row(f"{work} (process)", found["ours"], "restic", found["restic"], 0.1)
            self.row(f"{work} (process)", found["ours"], "borg", found["borg"], 1.0)
        edited.write_bytes(before)

    def diff(self) -> None:
        store = Store.open(self.path("store"))
        old = store.snapshot(LocalTree(self.tree)).tree
        paths = self.edit_ten()
        new = store.snapshot(LocalTree(self.tree)).tree
        self.run(["restic", "backup", "-q", self.tree])
        self.borg_create()
        ids = [one["short_id"] for one in json.loads(self.run(["restic", "snapshots", "--json"]))][-2:]
        running = Store.open(self.path("store"))
        assert len(list(running.diff(old, new))) == 10

        def inside():
            begun = time.perf_counter()
            list(running.diff(old, new))
            return (time.perf_counter() - begun) * 1000

        def read():
            fresh = Store.open(self.path("store"))
            begun = time.perf_counter()
            fresh.read(new, b"node_modules/typescript/package.json")
            return (time.perf_counter() - begun) * 1000

        found = self.medians(
            ours=lambda: self.seconds([*STORE, "diff", self.path("store"), old, new]),
            restic=lambda: self.seconds(["restic", "diff", *ids]),
            borg=lambda: self.seconds(["borg", "diff", f"::{self.archives - 1}", f"{self.archives}"]),
            inside=inside,
            read=read,
        )
        self.row("diff, 10 files apart", found["ours"], "restic diff", found["restic"], 0.06)
        self.row("diff, 10 files apart", found["ours"], "borg diff", found["borg"], 1.0)
        self.row("diff in a running process (ms)", found["inside"], "(a limit)", 30, 1)
        self.row("read one file, running process (ms)", found["read"], "(a limit)", 5, 1)
        for path, data in paths.items():
            path.write_bytes(data)

    def edit_ten(self) -> dict[Path, bytes]:
        packages = sorted(path for path in (self.tree / "node_modules").iterdir() if (path / "package.json").is_file())
        before = {
            path / "package.json": (path / "package.json").read_bytes() for path in packages[:: len(packages) // 10]
        }
        chosen = dict(list(before.items())[:10])
        for path in chosen:
            with open(path, "ab") as file:
                file.write(os.urandom(8))
        time.sleep(0.05)
        return chosen

    def restore(self) -> None:
        store = Store.open(self.path("store"))
        taken = store.snapshot(LocalTree(self.tree)).tree
        self.run(["tar", "-C", self.tree, "-cf", self.path("t.tar"), "."])

        def into(command, **options):
            def run():
                self.fresh("out")
                self.path("out").mkdir()
                return self.seconds(command, **options)

            return run

        found = self.medians(
            ours=into([*STORE, "restore", self.path("store"), taken, self.path("out")]),
            restic=into(["restic", "restore", "-q", "latest", "--target", self.path("out")]),
            borg=into(["borg", "extract", f"::{self.archives}"], cwd=self.path("out")),
            tar=into(["tar", "-C", self.path("out"), "-xf", self.path("t.tar")]),
        )
        self.row("restore into an empty folder", found["ours"], "restic", found["restic"], 0.5)
        self.row("restore into an empty folder", found["ours"], "borg", found["borg"], 1.0)
        self.row("restore into an empty folder", found["ours"], "tar x", found["tar"], 1.3)
        self.fresh("out")
        self.run(["cp", "-a", self.tree, self.path("copy")])

        def back(command):
            def run():
                self.edit_ten()
                return self.seconds(command)

            return run

        # The stat cache knows the tree, as it does after the safety snapshot that comes before each restore.
        self.run([*STORE, "snapshot", self.path("store"), self.tree])
        found = self.medians(
            ours=back([*STORE, "restore", self.path("store"), taken, self.tree]),
            rsync=back(["rsync", "-a", "--delete", f"{self.path('copy')}/", f"{self.tree}/"]),
        )
        self.row("put 10 changed files back", found["ours"], "rsync -a --delete", found["rsync"], 0.2)
        from bench.store import watching

        watching.put_back(self, store, taken, found["rsync"])
        self.fresh("copy")

    def memory(self) -> None:
        peak = {}
        for name, command in (
            ("ours", [*STORE, "snapshot", self.path("m"), self.tree]),
            ("restic", ["restic", "backup", "-q", self.tree]),
        ):
            self.fresh("m", "restic", "restic-cache")
            self.run([*STORE, "init", self.path("m")])
            self.run(["restic", "init"])
            peak[name] = _peak(command, self.env)
        self.row("peak memory of the first snapshot (MB)", peak["ours"], "restic", peak["restic"], 0.4)
        self.fresh("m")

    def bucket(self) -> None:
        """On an S3 bucket, beside restic there and the store in a folder."""
        from bench.store import bucket  # needs the packages of the tests

        bucket.measure(self)

    def watched(self) -> None:
        """Measure a watched tree beside a walk and git; needs the stores of `first` and `again`."""
        from bench.store import watching

        watching.measure(self)

    def forked(self) -> None:
        """Measure a fork beside one whose first snapshot reads all files; needs the store of `first`."""
        from bench.store import forks

        forks.measure(self)

    def mounted(self) -> None:
        """Search a mounted snapshot of 10,000 files, beside restic's."""
        from bench.store import mounts  # needs libfuse

        mounts.measure(self)

    def growth(self) -> None:
        """Time and memory for each entry must not grow with the tree."""
        per_entry = {}
        for entries in (20_000, 84_000, 250_000):
            grown = trees.copies(self.tree, self.path("grown"), entries)
            count = trees.walk(os.fspath(grown))
            firsts, peaks = zip(*(self._first_of(grown) for _ in self.turns()), strict=True)
            first, peak = statistics.median(firsts), statistics.median(peaks)
            time.sleep(0.1)
            self.run([*STORE, "snapshot", self.path("g"), grown])
            again = statistics.median(self.seconds([*STORE, "snapshot", self.path("g"), grown]) for _ in range(3))
            per_entry[entries] = (first / count, again / count, peak / count)
            print(f"  {count} entries: first {first:.2f} s, again {again:.3f} s, peak {peak:.0f} MB")
        small = per_entry[20_000]
        for entries, figures in list(per_entry.items())[1:]:
            for what, mine, base in zip(("first (µs)", "again (µs)", "memory (B)"), figures, small, strict=True):
                self.row(f"{entries} entries: {what} each", mine * 1e6, "20,000 entries", base * 1e6, 1.3)
        self.fresh("grown", "g")

    def _first_of(self, grown: Path) -> tuple[float, float]:
        """Seconds and peak memory of the first snapshot of a tree."""
        self.fresh("g")
        self.run([*STORE, "init", self.path("g")])
        begun = self.clock()
        peak = _peak([*STORE, "snapshot", self.path("g"), grown], self.env)
        return self.clock() - begun, peak


def wait_for_calm(seconds: float) -> None:
    """On a shared machine, wait until the others take less than a fifth of it, at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = _processor_times()
        time.sleep(0.4)
        busy, total = (after - then for after, then in zip(_processor_times(), before, strict=True))
        if busy < 0.2 * total:
            return


def _processor_times() -> tuple[int, int]:
    with open("/proc/stat") as file:
        times = [int(number) for number in file.readline().split()[1:]]
    return sum(times) - times[3] - times[4], sum(times)


def _peak(command: list, env: dict) -> float:
    """Return the peak resident memory of a program in MB."""
    process = subprocess.Popen([*map(str, command)], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return used.ru_maxrss / 1024


OTHERS = ("bucket", "mounted")  # by name only: they need a server, or FUSE
WORKS = ("first", "again", "watched", "diff", "restore", "forked", "memory", "growth")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument("--scratch", type=Path, default=Path("var/bench/store"), help="where trees and stores go")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=25, help="after so many, each work left has one round")
    parser.add_argument("--cpu", action="store_true", help="compare processor time, where others use the machine too")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a calm machine before each")
    parser.add_argument(
        "works",
        nargs="*",
        choices=[*WORKS, *OTHERS, []],
        help="all but `bucket` by default; `first` fills the stores",
    )
    args = parser.parse_args()
    needed = {"restic": "restic"} if args.works == ["bucket"] else TOOLS
    if missing := [package for tool, package in needed.items() if not shutil.which(tool)]:
        raise SystemExit(f"This compares with peers that are not here. On Debian: apt-get install {' '.join(missing)}")
    args.scratch.mkdir(parents=True, exist_ok=True)
    bench = Bench(args.scratch.absolute(), args.rounds, args.minutes, args.patience, args.cpu)
    load = os.getloadavg()[0]
    entries = trees.walk(os.fspath(bench.tree))
    print("Seconds of processor time" if args.cpu else "Seconds on the wall", flush=True)
    print(f"{entries} entries, {args.rounds} rounds, {os.cpu_count()} processors, load {load:.1f}", flush=True)
    for work in args.works or WORKS:
        getattr(bench, work)()
    bench.table()
    within = sum(row[4] <= row[5] for row in bench.rows)
    print(f"{within} of {len(bench.rows)} within their limits; load {os.getloadavg()[0]:.1f} at the end")
    if bench.fewest < args.rounds:
        print(f"There was not time for all rounds: some works had {bench.fewest}.")


if __name__ == "__main__":
    main()
