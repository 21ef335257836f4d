"""The lines that the Connect page gives to Python programs do what it says."""

import http.server
import json
import os
import socket
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


def test_a_program_waits_through_a_restart_and_hears_why_when_it_gives_up(tmp_path):
    """While Handrail is away the program asks again; it gets NotAllowed once its patience is over."""
    (tmp_path / "handrail.py").write_text(PYTHON.read_text())
    desk = RestartingDesk()
    threading.Thread(target=desk.serve, daemon=True).start()
    program = "import handrail\nhandrail.PATIENCE = 3\n" + PROGRAM.replace('("main", "other")', '("main",)')
    env = os.environ | {"HANDRAIL_URL": f"http://127.0.0.1:{desk.port}", "HANDRAIL_TOKEN": "hr_x", "no_proxy": "*"}
    done = run(program, tmp_path, env)
    assert done.stdout.splitlines() == ["ran git push origin main"], done.stderr
    assert (desk.waits, len(desk.keys)) == (3, 1)
    desk.stop()
    done = run(program, tmp_path, env)
    said = done.stdout.strip()
    assert said.startswith(f"not allowed: Handrail at http://127.0.0.1:{desk.port} is out of reach: "), done.stderr
    assert done.stderr == ""


def test_a_program_without_its_variables_hears_which_it_needs(tmp_path):
    (tmp_path / "handrail.py").write_text(PYTHON.read_text())
    env = {name: value for name, value in os.environ.items() if not name.startswith("HANDRAIL_")}
    done = run(PROGRAM.replace('("main", "other")', '("main",)'), tmp_path, env)
    assert "not allowed: Set HANDRAIL_URL and HANDRAIL_TOKEN" in done.stdout, done.stderr


def run(program, folder, env):
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )


class RestartingDesk:
    """Answers as the API does, after it has dropped the first connection of a wait and answered the second with 503."""

    def __init__(self):
        self.waits, self.keys = 0, set()
        desk, asked = self, {"id": "1", "status": "approved", "digest": "d", "decision": None}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                desk.waits += 1
                if desk.waits == 1:
                    return self.connection.shutdown(socket.SHUT_RDWR)
                if desk.waits == 2:
                    return self.answer(503, b"<html>no desk yet</html>")
                self.answer(200, json.dumps(asked).encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                if "consume" in self.path:
                    body = {"arguments": {"command": "git push origin main"}}
                else:
                    desk.keys |= {self.headers["Idempotency-Key"]} - {None}
                    body = asked | ({"status": "pending"} if desk.waits < 2 else {})
                self.answer(200, json.dumps(body).encode())

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port

    def serve(self):
        self.server.serve_forever(0.05)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
