"""The lines that the Connect page gives to Python programs do what it says."""

import os
import subprocess
import sys
import threading
import time

from approvals.pages.connect import PYTHON

PROGRAM = """
from handrail import NotAllowed, allowed
for branch in ("main", "other"):
    try:
        with allowed("Bash", {"command": f"git push origin {branch}"}, "It is ready.") as arguments:
            print("ran", arguments["command"])
    except NotAllowed as no:
        print("not allowed:", no)
"""


def test_a_python_program_asks_runs_what_was_approved_and_reports(product, tmp_path):
    agent, reviewer = product.agent_token("python-snippet"), product.person_token("rita-of-python")
    (tmp_path / "handrail.py").write_text(PYTHON.read_text())
    (tmp_path / "program.py").write_text(PROGRAM)
    answers = [
        {"verdict": "edit", "arguments": {"command": "git push origin review"}},
        {"verdict": "deny", "comment": "Not today."},
    ]

    def answer():
        for wanted in answers:
            while not (found := product.get("/api/v1/actions?status=pending", agent).json["actions"]):
                time.sleep(0.05)
            product.post(
                f"/api/v1/actions/{found[0]['id']}/decision", reviewer, wanted | {"digest": found[0]["digest"]}
            )

    person = threading.Thread(target=answer)
    person.start()
    env = os.environ | {"HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": agent, "no_proxy": "*"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    person.join(10)
    assert done.stdout.splitlines() == ["ran git push origin review", "not allowed: Not today."], done.stderr
    statuses = [row["status"] for row in product.get("/api/v1/actions", agent).json["actions"]]
    assert sorted(statuses) == ["denied", "succeeded"]
