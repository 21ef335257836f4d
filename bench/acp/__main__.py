"""Run acplint against an agent, and against the same agent behind Handrail's ACP gate.

    deploy/agents.sh                            # prints the folder of the programs
    python -m venv ACPLINT && ACPLINT/bin/pip install acplint
    python -m bench.acp FOLDER ACPLINT/bin/acplint

The agent is the real OpenCode on a scripted model. A person approves what it asks at a desk. The exit status is 1 if
a test has a worse result behind the gate.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from approvals.agents import hook_programs
from approvals.agents.program import MODEL
from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.model import Model, run, say
from bench.approver import Approver
from tests.support.product import Product

RANK = {"pass": 0, "skip": 1, "fail": 2, "error": 3}
EVERY = " "  # in each of the suite's prompts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.acp", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where deploy/agents.sh has put the programs")
    parser.add_argument("acplint", type=Path)
    asked = parser.parse_args()
    agent = [str(asked.folder / "opencode"), "acp"]
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as scratch:
        product = Product(Path(scratch, "home"))
        product.start()
        try:
            alone = lint(asked.acplint, agent, Path(scratch, "alone"), {})
            archive = Path(scratch, "handrail-acp.pyz")
            archive.write_bytes(hook_programs.acp_archive())
            gate = [sys.executable, "-IS", str(archive), "env", "gate", "--", *agent]
            desk = {"HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": product.agent_token("acplint")}
            with Approver(product) as approver:
                gated = lint(asked.acplint, gate, Path(scratch, "gated"), desk)
        finally:
            product.stop()
            product.clean_up()
    return compared(alone, gated, approver.count)


def lint(acplint: Path, agent: list[str], folder: Path, desk: dict[str, str]) -> dict[str, str]:
    """Return {category/test: status}."""
    home, project = folder / "home", folder / "project"
    home.mkdir(parents=True)
    project.mkdir()
    model = Model()
    model.scripts[EVERY] = [[say("I look."), run("git push origin main")], [say("Done.")]]
    try:
        variables = {"PATH": os.environ["PATH"], "HOME": str(home)} | desk
        variables |= SCRIPTED["opencode"].variables(model.url)
        config = json.loads(variables["OPENCODE_CONFIG_CONTENT"]) | {"permission": {"*": "ask"}}
        variables["OPENCODE_CONFIG_CONTENT"] = json.dumps(config | {"model": f"{MODEL}/{MODEL}"})
        report = folder / "report.json"
        line = [str(acplint.absolute()), "--agent", agent[0], "--agent-args", " ".join(agent[1:])]
        line += ["--cwd", str(project), "--output", "json", "--output-file", str(report)]
        subprocess.run(line, env=variables, cwd=project, timeout=1200, check=False, stdout=subprocess.DEVNULL)
        told = json.loads(report.read_text())
    finally:
        model.stop()
    return {f"{each['category']}/{each['name']}": str(each["status"]).lower() for each in told["results"]}


def compared(alone: dict[str, str], gated: dict[str, str], approved: int) -> int:
    print(f"{'test':<60}{'agent':>7}{'gate':>7}")
    worse = 0
    for name, status in alone.items():
        behind = gated.get(name, "error")
        is_worse = RANK.get(behind, 3) > RANK.get(status, 3)
        worse += is_worse
        if is_worse or status != "pass":
            print(f"{name:<60}{status:>7}{behind:>7}{'  WORSE' if is_worse else ''}")
    passed = [sum(status == "pass" for status in each.values()) for each in (alone, gated)]
    print(f"passed: {passed[0]} of {len(alone)} at the agent, {passed[1]} behind the gate", end="; ")
    print(f"a person approved {approved} calls")
    return 1 if worse or not alone else 0


if __name__ == "__main__":
    sys.exit(main())
