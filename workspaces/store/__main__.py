"""The snapshot engine on the command line: one JSON object (JSON lines for diff and ls) on standard output."""

import argparse
import gc as cycles
import json
import os
import sys
import time
from pathlib import Path

from . import Store, StoreError
from .blobs import is_bucket
from .objects import LISTED, TORN, Entry


def path_fields(path: bytes, key: str = "path") -> dict:
    """Return a path as JSON fields: text, and base64 in addition if it is not UTF-8."""
    try:
        return {key: path.decode()}
    except UnicodeDecodeError:
        import base64

        return {key: path.decode(errors="replace"), f"{key}_b64": base64.b64encode(path).decode()}


def say(fields: dict) -> None:
    print(json.dumps(fields), flush=True)


def init(args) -> None:
    store = Store.create(args.store, keys=args.keys)
    say({"store": str(args.store), "id": store.id})


def prove(args) -> None:
    if not is_bucket(args.store):
        raise StoreError("only a bucket has to prove what it keeps: give s3://BUCKET/PREFIX")
    from .blobs.bucket_client import Client
    from .blobs.proof import prove as prove_bucket

    prove_bucket(Client.at(args.store))
    say({"ok": True})


def snapshot(args) -> None:
    if "STORE_WATCH" in os.environ and not args.keys:
        from .watch.serve import snapshot_by_watch

        if fields := snapshot_by_watch(str(args.store), args.dir, {"thorough": args.thorough, "prove": args.prove}):
            say(fields)
            return
    from . import LocalTree  # here and below: import only what this command needs

    say(
        snapshot_fields(
            Store.open(args.store, keys=args.keys).snapshot(LocalTree(args.dir), thorough=args.thorough, hold=0)
        )
    )


def snapshot_fields(done) -> dict:
    return {
        "tree": done.tree,
        "entries": done.entries,
        "bytes": done.bytes,
        "added_bytes": done.added_bytes,
        "skipped": [path_fields(path) | {"reason": reason} for path, reason in done.skipped],
        "looked_at": dict(zip(("walked", "watched"), done.looked_at, strict=True)),
        "seconds": round(done.seconds, 4),
    }


def watch(args) -> int:
    from .watch.serve import watch as watch_while

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise StoreError("name a command after --: the tree is watched while it runs")
    return watch_while(args.dir, command, snapshot_fields)


def restore(args) -> None:
    from . import LocalTree, recover

    store = Store.open(args.store, keys=args.keys)
    args.dir.mkdir(parents=True, exist_ok=True)
    # Beside the stage rather than in the store, so that the two are found together.
    folder = Path(os.path.realpath(args.dir))
    journal = args.journal or folder.with_name(f".{folder.name}.handrail-journal")
    recover(journal)
    paths = [os.fsencode(path) for path in args.path] if args.path else None
    keep = [os.fsencode(path) for path in args.keep]
    done = store.restore(args.tree, LocalTree(args.dir), journal=journal, paths=paths, keep=keep)
    say({"created": done.created, "changed": done.changed, "removed": done.removed, "entries": done.entries})


def compare(args) -> None:
    from . import LocalTree

    proof = Store.open(args.store, keys=args.keys).compare(args.tree, LocalTree(args.dir), full=args.full)
    say({"entries": proof.entries, "differ": [path_fields(path) for path in proof.differ]})


def diff(args) -> None:
    for change in Store.open(args.store, keys=args.keys).diff(args.a, args.b):
        line = path_fields(change.path) | {"kind": change.kind}
        if change.old_path is not None:
            line |= path_fields(change.old_path, "old_path")
        modes = {"old_mode": change.old_mode, "new_mode": change.new_mode}
        say(line | {key: f"{mode:06o}" if mode is not None else None for key, mode in modes.items()})


def entry_fields(entry: Entry) -> dict:
    fields = path_fields(entry.name, "name") | {
        "type": entry.type, "mode": f"{entry.mode:04o}", "uid": entry.uid, "gid": entry.gid,
        "size": entry.size, "mtime_ns": entry.mtime_ns,
    }  # fmt: skip
    if entry.target:
        fields |= path_fields(entry.target, "target")
    if entry.content.strip(b"\0"):
        fields["content"] = entry.content.hex()
    flags = {"kept": entry.kept, "large": bool(entry.flags & LISTED), "torn": bool(entry.flags & TORN)}
    return fields | {name: flag for name, flag in flags.items() if flag is not (name == "kept")}


def ls(args) -> None:
    for entry in Store.open(args.store, keys=args.keys).ls(args.tree, os.fsencode(args.path)):
        say(entry_fields(entry))


def cat(args) -> None:
    for piece in Store.open(args.store, keys=args.keys).stream(args.tree, os.fsencode(args.path)):
        sys.stdout.buffer.write(piece)


def mount(args) -> None:
    from .blobs import at as blobs_at
    from .mount.ends import end_here, end_with_input, end_with_lock
    from .mount.file_system import serve
    from .mount.snapshot_folder import SnapshotFolder

    def clock() -> float:
        return time.time() + args.clock_ahead

    if args.until_end_of_input:
        end_with_input()
    if args.until_unlocked:
        end_with_lock(args.until_unlocked)
    blobs = blobs_at(args.store, cache=args.cache, cache_bytes=args.cache_bytes, clock=clock, keys=args.keys)
    store = Store.open(blobs)
    hidden = frozenset(args.without.read_bytes().split(b"\0")) if args.without else frozenset()
    with blobs.keeping(args.tree, end_here):
        store.catalog.refresh()  # a collection may have removed the tree just before it was kept
        folder = SnapshotFolder(store, args.tree, tuple(args.owner) if args.owner else None, hidden)
        serve(
            folder,
            args.dir,
            name=f"handrail:{args.tree[:12]}",
            ready=lambda: say({"mounted": os.fspath(args.dir), "tree": args.tree}),
            everyone=args.everyone,
            threads=blobs.shared,
        )


def verify(args) -> None:
    found = Store.open(args.store, keys=args.keys).verify(full=args.full)
    problems = [
        {
            "where": problem.where,
            "what": problem.what,
            "hurts": [{"tree": tree} | path_fields(path) for tree, path in problem.hurts],
            "harmless": problem.harmless,
        }
        for problem in found.problems
    ]
    counts = {"packs": found.packs, "objects": found.objects, "trees": found.trees, "bytes": found.bytes}
    say({"ok": found.ok, "full": found.full} | counts | {"problems": problems})
    if not found.ok:
        raise StoreError(f"{len(problems)} problems found in {args.store}")


def reindex(args) -> None:
    from .index.rebuild import reindex as make_anew

    done = make_anew(args.store, keys=args.keys)
    say({"packs": done.packs, "objects": done.objects, "trees": done.trees, "dropped": done.dropped})


def gc(args) -> None:
    keep = [tree for word in args.keep for tree in (sys.stdin.read().split() if word == "-" else [word])]
    done = Store.open(args.store, keys=args.keys).gc(keep)
    say(
        {
            "trees": done.trees,
            "objects": done.objects,
            "removed_objects": done.removed_objects,
            "freed_bytes": done.freed_bytes,
            "bytes": done.bytes,
        }
    )


def parser() -> argparse.ArgumentParser:

    def form(prog: str) -> argparse.HelpFormatter:
        # With a fixed width, argparse does not import shutil to find the width of the terminal at each start.
        return argparse.HelpFormatter(prog, width=100)

    types = {"store": lambda word: word if is_bucket(word) else Path(word), "dir": Path}
    top = argparse.ArgumentParser(prog="python -m workspaces.store", description=__doc__, formatter_class=form)
    top.add_argument("--keys", type=Path, metavar="FILE", help="the keys of the store, one a line, newest first")
    commands = top.add_subparsers(required=True, metavar="command", prog=top.prog)

    def command(run, *names: str) -> argparse.ArgumentParser:
        found = commands.add_parser(run.__name__, formatter_class=form)
        found.set_defaults(run=run)
        for name in ("store", *names):
            found.add_argument(name, type=types.get(name, str))
        return found

    command(init)
    command(prove)
    found = command(snapshot, "dir")
    found.add_argument("--thorough", action="store_true", help="read every file")
    found.add_argument("--prove", action="store_true", help="walk a watched tree, and compare with what was heard")
    found = command(restore, "tree", "dir")
    found.add_argument("--path", action="append", help="only this path; may be given again")
    found.add_argument("--keep", action="append", default=[], help="leave this path alone; may be given again")
    found.add_argument("--journal", type=Path, help="where the restore notes its steps")
    command(compare, "tree", "dir").add_argument("--full", action="store_true", help="read every file")
    command(diff, "a", "b")
    command(ls, "tree").add_argument("path", nargs="?", default="")
    command(cat, "tree", "path")
    mounts(command(mount, "tree", "dir"))
    command(verify).add_argument("--full", action="store_true", help="read every byte of the store")
    command(reindex)
    found = commands.add_parser("watch", formatter_class=form)
    found.set_defaults(run=watch)
    found.add_argument("dir", type=Path, metavar="tree")
    found.add_argument("command", nargs=argparse.REMAINDER, metavar="-- command")
    command(gc).add_argument("--keep", nargs="*", required=True, metavar="TREE", help="- reads trees from stdin")
    return top


def mounts(found: argparse.ArgumentParser) -> None:
    """Add the options of `mount`."""
    found.add_argument("--everyone", action="store_true", help="all users of this host may look, as the modes allow")
    found.add_argument("--owner", type=int, nargs=2, metavar=("UID", "GID"), help="of what the root's owner owns")
    found.add_argument("--without", type=Path, metavar="FILE", help="a list of paths to leave out, joined by NUL")
    found.add_argument("--until-end-of-input", action="store_true", help="unmount when standard input ends")
    found.add_argument("--until-unlocked", type=Path, metavar="FILE", help="unmount when nobody has a lock on the file")
    found.add_argument("--clock-ahead", type=float, default=0.0, help="seconds from this clock to that of a bucket")
    found.add_argument("--cache", type=Path, help="the folder of a bucket's copies")
    found.add_argument("--cache-bytes", type=int)


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        if args.keys:
            from .sealing import read

            args.keys = read(args.keys)
        status = args.run(args)
        sys.stdout.flush()
    except (StoreError, ValueError, OSError) as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return 1
    return status or 0


if __name__ == "__main__":
    cycles.disable()  # nothing here creates reference cycles, and the collector takes a twentieth of a snapshot's time
    sys.exit(main())
