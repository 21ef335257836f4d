"""`python -m bench.policy.claude_code CALLS`: how many of these calls Claude Code itself would ask its person about.

CALLS has JSON lines {command, n}. The real Claude Code runs them for a scripted model, in its default permission mode,
with nothing allowed beforehand. Without a person it denies what it would ask about, and lists it in its result. It
lives in a bubblewrap sandbox without network, so calls that it allows by itself touch nothing. The program is the one
that the tests install; HANDRAIL_TEST_CLAUDE names another.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.approvals.agents.claude_code.model import Model, call, say
from workspaces.drivers.sandbox.driver import find_bwrap, system_binds

CHECKOUT = Path(__file__).resolve().parents[2]
INSTALL = CHECKOUT / "tests" / "approvals" / "claude_code" / "install.sh"
BATCH = 100  # calls of one session
SESSION_TIMEOUT_S = 600
CALL_TIMEOUT_MS = "2000"  # of a call that it allows by itself


def asked_about(calls: list[dict]) -> Iterator[dict]:
    """Yield the calls that Claude Code would ask about. Raise CalledProcessError if it does not work here."""
    claude = os.environ.get("HANDRAIL_TEST_CLAUDE") or subprocess.check_output([INSTALL], text=True).strip()
    with tempfile.TemporaryDirectory(prefix="handrail-claude-") as folder:
        listed, found = Path(folder, "calls"), Path(folder, "found")
        listed.write_text("".join(json.dumps(one) + "\n" for one in calls))
        found.touch()
        subprocess.run(_inside(claude, listed, found), check=True)
        numbers = {int(number) for number in found.read_text().split()}
    yield from (one for number, one in enumerate(calls) if number in numbers)


def _inside(claude: str, listed: Path, found: Path) -> list[str]:
    """Return the command that runs this module as `--inside` in a sandbox that may write only the result."""
    bwrap = [str(find_bwrap().path), "--unshare-all", "--die-with-parent", "--uid", "1000"]
    bwrap += [*system_binds(), "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    bwrap += ["--bind", str(CHECKOUT), "/tmp/checkout", "--ro-bind", str(listed), "/tmp/calls"]
    bwrap += ["--ro-bind", sys.prefix, sys.prefix, "--ro-bind", str(Path(claude).parent), "/tmp/claude"]
    bwrap += ["--bind", str(found), "/tmp/found", "--remount-ro", "/tmp/checkout", "--dir", "/tmp/home/.claude"]
    bwrap += ["--tmpfs", "/workspace", "--chdir", "/tmp/checkout", "--clearenv"]
    for name, value in {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp/home", "LANG": "C.UTF-8"}.items():
        bwrap += ["--setenv", name, value]
    return [*bwrap, sys.executable, "-m", "bench.policy.claude_code", "--inside", "/tmp/calls"]


def _run_inside(calls: list[dict]):
    subprocess.run(["git", "init", "-q", "/workspace"], check=True)
    model = Model()
    environment = dict(os.environ) | {
        "SHELL": "/bin/bash",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "x",
        "BASH_DEFAULT_TIMEOUT_MS": CALL_TIMEOUT_MS,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    for start in range(0, len(calls), BATCH):
        word = f"session{start}"
        asked = {number: call("Bash", command=calls[number]["command"], description="x") for number in
                 range(start, min(start + BATCH, len(calls)))}  # fmt: skip
        model.scripts = {word: [*([block] for block in asked.values()), [say("Done.")]]}
        denied = _denied(word, environment)
        with open("/tmp/found", "a") as found:
            found.write("".join(f"{number}\n" for number, block in asked.items() if block["id"] in denied))


def _denied(word: str, environment: dict) -> set[str]:
    """Run one session; return the ids of the calls that it denied for want of a person."""
    claude = ["/tmp/claude/claude", "-p", word, "--permission-mode", "default", "--output-format", "stream-json"]
    done = subprocess.run(
        [*claude, "--verbose"],
        cwd="/workspace",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SESSION_TIMEOUT_S,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    result = next((line for line in reversed(lines) if line["type"] == "result"), None)
    if result is None:
        raise SystemExit(f"Claude Code ended with {done.returncode}: {done.stderr[-2000:]}")
    return {denial["tool_use_id"] for denial in result["permission_denials"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=Path)
    parser.add_argument("--first", type=int, help="only so many of them")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    calls = [json.loads(line) for line in options.calls.read_text().splitlines()][: options.first]
    if options.inside:
        _run_inside(calls)
        return
    asked = list(asked_about(calls))
    by_count, by_weight = len(asked) / len(calls), sum(one["n"] for one in asked) / sum(one["n"] for one in calls)
    print(f"Claude Code asks about {by_count:.1%} of {len(calls):,} calls, {by_weight:.1%} by weight")


if __name__ == "__main__":
    main()
