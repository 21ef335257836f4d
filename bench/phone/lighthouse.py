"""Lighthouse from npm, on Debian's Chromium: the scores of a page for somebody who is signed in."""

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

VERSION = "12.8.2"  # the newest for Node 20
TOOLS = Path(__file__).parent.parent / "tools"
CATEGORIES = ("performance", "accessibility", "best-practices")


def install() -> Path:
    """Return Lighthouse's program, fetched into bench/tools at the first run, and never a browser."""
    folder = TOOLS / f"lighthouse-{VERSION}"
    program = folder / "node_modules" / "lighthouse" / "cli" / "index.js"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("Lighthouse needs npm and Node 20 or newer")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", "."]
        environment = os.environ | {"PUPPETEER_SKIP_DOWNLOAD": "1"}
        command = [npm, "install", *options, f"lighthouse@{VERSION}"]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return program


def scores(program: Path, address: str, port: int, *, rounds: int) -> dict:
    """Return {category: the median of its scores} and {"faults": what cost points}, by the browser at this port.

    The browser keeps its cookies; Lighthouse empties its caches, so each round is a first visit on the phone profile
    (a slow phone's processor, slow 4G, both simulated from what was seen).
    """
    found = [_run(program, address, port) for _ in range(rounds)]
    answer = {name: statistics.median(one["categories"][name]["score"] * 100 for one in found) for name in CATEGORIES}
    audits = found[-1]["audits"]
    for name in ("first-contentful-paint", "largest-contentful-paint", "total-blocking-time"):
        answer[name] = statistics.median(one["audits"][name]["numericValue"] for one in found)
    answer["layout-shift"] = statistics.median(
        one["audits"]["cumulative-layout-shift"]["numericValue"] for one in found
    )
    answer["bytes"] = audits["total-byte-weight"]["numericValue"]
    answer["faults"] = sorted(_faults(found[-1]))
    return answer


def _faults(found: dict) -> set[str]:
    return {
        part["id"]
        for name in CATEGORIES
        for part in found["categories"][name]["auditRefs"]
        if part["weight"] and (found["audits"][part["id"]]["score"] or 0) < 0.9
        if found["audits"][part["id"]]["scoreDisplayMode"] not in ("notApplicable", "manual", "informative")
    }


def _run(program: Path, address: str, port: int) -> dict:
    node = shutil.which("node")
    command = [node, program, address, f"--port={port}", "--output=json", "--quiet", "--no-enable-error-reporting"]
    command += [f"--only-categories={','.join(CATEGORIES)}", "--disable-full-page-screenshot"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(f"Lighthouse failed on {address}:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if "runtimeError" in found:
        raise SystemExit(f"Lighthouse failed on {address}: {found['runtimeError']['message']}")
    if found["finalDisplayedUrl"] != address:
        raise SystemExit(f"Lighthouse saw {found['finalDisplayedUrl']} in the place of {address}")
    return found
