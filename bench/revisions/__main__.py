"""`python -m bench.revisions [--files 20000] [--rounds 3]`: a revision beside the creation of a workspace from it.

The source is a git repository and, without one, an upload; the revision brings as many new files in 200 folders. Each
figure is a median of seconds; a revision that takes more than twice as long as the creation fails the run.
"""

import argparse
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.support.desk import Desk
from tests.support.product import Product

FOLDERS = 200
MOST = 2.0  # revision ÷ creation
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]


def fill(folder: Path, files: int):
    for number in range(files):
        path = folder / f"folder-{number % FOLDERS}" / f"file-{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"file {number}\n" * 20)


def repository(scratch: Path, files: int) -> tuple[Path, str, str]:
    """Return a bare repository, its first commit and the one with all files."""
    work, bare = scratch / "work", scratch / "source.git"
    work.mkdir()
    (work / "README").write_text("bench\n")

    def git(*args) -> str:
        return subprocess.run([*GIT, "-C", work, *args], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("rev-parse", "HEAD")
    fill(work, files)
    git("add", ".")
    git("commit", "-qm", "all")
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True)
    return bare, first, git("rev-parse", "HEAD")


def upload(desk: Desk, folder: Path) -> str:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            if path.name != ".git":
                tar.add(path, arcname=path.name)
    return desk.call("POST", "/uploads", packed.getvalue(), 201).json["id"]


def measure(desk: Desk, first: dict, last: dict, ask: dict) -> tuple[float, float]:
    """Return the seconds of a creation from `last`, and of a revision to it of a workspace made from `first`."""
    began = time.monotonic()
    made = desk.create(source=last)
    created = time.monotonic() - began
    assert made["state"] == "ready", made["reason"]
    key = desk.create(source=first)["key"]
    began = time.monotonic()
    asked = desk.post(f"/workspaces/{key}/revisions", ask | {"how": "merge"}, 202).json
    desk.settled(key)
    revised = time.monotonic() - began
    outcome = desk.get(f"/workspaces/{key}/operations/{asked['operation']}").json["outcome"]
    assert outcome.get("merged"), outcome
    return created, revised


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    wanted = options.parse_args()
    is_slow = False
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as folder:
        scratch = Path(folder)
        bare, first, last = repository(scratch, wanted.files)
        product = Product(scratch / "home", HANDRAIL_LOCAL_SOURCES=folder)
        try:
            product.prepare()
            product.start()
            desk = Desk(product, product.agent_token("bench"))
            (scratch / "first").mkdir()
            (scratch / "first" / "README").write_text("bench\n")
            small, all_files = upload(desk, scratch / "first"), upload(desk, scratch / "work")
            kinds = {
                "git": ({"git": str(bare), "ref": first}, {"git": str(bare), "ref": last}),
                "upload": ({"upload": small}, {"upload": all_files}),
            }
            for kind, (before, after) in kinds.items():
                pairs = [measure(desk, before, after, after) for _ in range(wanted.rounds)]
                created, revised = (statistics.median(side) for side in zip(*pairs, strict=True))
                ratio = revised / created
                is_slow |= ratio > MOST
                print(
                    f"{kind:8} created {created:6.1f} s  revised {revised:6.1f} s  ratio {ratio:.2f} (at most {MOST})"
                )
        finally:
            product.stop()
            product.clean_up()
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
