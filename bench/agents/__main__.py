"""The fail-closed matrix: each agent on this machine, its own program, a scripted model, a desk that fails.

    python -m bench.agents                 the agents whose programs are on the PATH
    python -m bench.agents codex gemini    some of them
    python -m bench.agents --long          all side by side, each with a call that waits for 30 minutes
    python -m bench.agents --long 90

Each row is one run in a throw-away home and folder. A tool that ran although nothing allowed it ends this with 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from approvals.agents import dialects
from approvals.agents.dialect import Dialect
from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.model import DONE, Model, run
from bench.agents import long
from bench.agents.desk import MODES, REASON, Desk
from bench.agents.settings import settle

PATIENCE = 6  # seconds for which the hook tries: what fails here, fails for good
TIMEOUT = 120
HALF_AN_HOUR = 1800
EXPECTED = {"allowed": ["asked"], "held": ["asked"], "edited": ["edited"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.agents", description=__doc__.partition("\n")[0])
    parser.add_argument("agents", nargs="*", help="by default all on the PATH")
    parser.add_argument("--long", nargs="?", type=int, const=HALF_AN_HOUR, metavar="SECONDS", help="1800 by default")
    asked = parser.parse_args()
    return long.hold(asked.long, asked.agents) if asked.long else matrix(asked.agents)


def matrix(wanted: list[str]) -> int:
    opened = 0
    for dialect in map(dialects.find, SCRIPTED):
        program = shutil.which(dialect.program)
        if (wanted and dialect.name not in wanted) or program is None:
            if not wanted:
                print(f"{dialect.title}: not on the PATH")
            continue
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
        version = re.search(r"\d+\.\d+\.\d+", said)
        print(f"{dialect.title} {version[0] if version else 'of an unknown version'}", flush=True)
        for mode in MODES:
            ran, told, heard = trial(dialect, program, mode)
            expected = EXPECTED.get(mode, [])
            if mode == "edited" and not ran:  # told to make the edited call, which the script does not
                expected = []
            wrong = ran != expected
            opened += wrong
            words = f"ran {' '.join(ran) or 'nothing'}, {'heard' if heard else 'not heard'}"
            reason = (
                "" if mode != "denied" else f", the reason {'reached' if REASON in told else 'DID NOT REACH'} the model"
            )
            print(f"  {mode:<24}{'WRONG: ' if wrong else ''}{words}{reason}", flush=True)
    return 1 if opened else 0


def trial(dialect: Dialect, program: str, mode: str) -> tuple[list[str], str, bool]:
    """Return (what ran, all that the model was told, whether the desk heard of the call)."""
    model, desk = Model(), Desk(mode)
    model.scripts["HANDRAIL"] = [[run("echo asked >> ran")], DONE]
    try:
        with tempfile.TemporaryDirectory(prefix="handrail-agents-", ignore_cleanup_errors=True) as root:
            home, folder = Path(root, "home"), Path(root, "folder")
            home.mkdir()
            folder.mkdir()
            settle(dialect, home, folder, desk.url, patience_s=PATIENCE)
            own = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
            subprocess.run(
                SCRIPTED[dialect.name].command(program, "HANDRAIL tries its gate", model.url),
                env=own | {"HOME": str(home), "PWD": str(folder)} | SCRIPTED[dialect.name].variables(model.url),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
            ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
            return ran, model.transcript("HANDRAIL"), bool(desk.heard)
    finally:
        desk.stop()
        model.stop()


if __name__ == "__main__":
    sys.exit(main())
