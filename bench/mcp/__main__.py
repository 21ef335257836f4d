"""Run the MCP project's conformance suite against a server, and against the same server behind `handrail mcp-gate`.

    npm install --prefix FOLDER @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22
    deploy/frameworks.sh
    python -m bench.mcp FOLDER

A person approves each tool call at a desk. The exit status is 1 if a scenario has a worse result behind the gate.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from bench.approver import Approver
from tests.support.product import Product

CHECKOUT = Path(__file__).resolve().parents[2]
SUITE = "node_modules/@modelcontextprotocol/conformance"
NODE = "node_modules/node/bin/node"  # the suite needs Node 22, which Debian 12 lacks
FRAMEWORKS = CHECKOUT / ".venv-frameworks/bin/python"
REVISIONS = ("2025-11-25", "2026-07-28")  # of the specification, whose required scenarios the suite knows
RESULT = re.compile(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mcp", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder in which npm installed the suite and Node")
    folder = parser.parse_args().folder.resolve()
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
        product = Product(Path(home, "home"))
        product.start()
        try:
            with ServerProcess([FRAMEWORKS, "-W", "ignore", CHECKOUT / "bench/mcp/server.py"]) as port:
                server = f"http://127.0.0.1:{port}/mcp"
                alone = scenarios(folder, server)
                token = product.agent_token("conformance")
                environment = {
                    "HANDRAIL_URL": product.url,
                    "HANDRAIL_TOKEN": token,
                    "PYTHONPATH": str(CHECKOUT / "client"),
                }
                words = [sys.executable, "-m", "handrail_client", "mcp-gate", "--name", "suite", "--http", server]
                with Approver(product) as approver, ServerProcess(words, stream="stderr", **environment) as told:
                    gated = scenarios(folder, told.split()[-1])
        finally:
            product.stop()
            product.clean_up()
    print(f"{'scenario':<54}{'server':>8}{'gate':>8}   checks passed, of all")
    worse = 0
    for name, (passed, failed) in alone.items():
        behind = gated.get(name, (0, 1))
        is_worse = behind[1] > failed or behind[0] < passed
        worse += is_worse
        print(
            f"{name:<54}{passed:>5}/{passed + failed:<2}{behind[0]:>5}/{sum(behind):<2}{'  WORSE' if is_worse else ''}"
        )
    print(
        f"{sum(found[0] for found in gated.values())} passed behind the gate; a person approved {approver.count} calls"
    )
    return 1 if worse or not alone else 0


def scenarios(folder: Path, address: str) -> dict[str, tuple[int, int]]:
    """Run the suite against a server; {revision and scenario: (checks passed, checks failed)}."""
    found = {}
    for revision in REVISIONS:
        words = [
            folder / NODE,
            folder / SUITE / "dist/index.js",
            "server",
            "--url",
            address,
            "--requirements",
            revision,
        ]
        said = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False).stdout
        for name, passed, failed in RESULT.findall(said):
            found[f"{revision} {name}"] = int(passed), int(failed)
    return found


class ServerProcess:
    """A process that prints its port or address as its first line, which `with` returns."""

    def __init__(self, argv, *, stream: str = "stdout", **environment):
        pipes = {stream: subprocess.PIPE}
        self._process = subprocess.Popen(
            [str(word) for word in argv], env=os.environ | environment, cwd=CHECKOUT, text=True, **pipes
        )
        self._stream = getattr(self._process, stream)

    def __enter__(self) -> str:
        line = self._stream.readline().strip()
        threading.Thread(target=self._stream.read, daemon=True).start()
        return line

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
