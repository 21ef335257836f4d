"""`python -m tests.approvals.race.client URL TOKEN agent|reviewer ROUNDS`: one client.

Prints the answers that nobody may get.
"""

import json
import select
import sys
import time
import urllib.error
import urllib.request
import uuid

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
QUIET = 60  # seconds without anything to decide after which a reviewer goes home


class Client:
    def __init__(self, url: str, token: str):
        self.url, self.token = url, token
        self.bad: list[list] = []

    def call(self, method: str, path: str, body=None) -> tuple[int, dict]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with _opener.open(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            text = refused.read().decode()
            if refused.code >= 500 or "locked" in text:
                self.bad.append([method, path, refused.code, text[:300]])
            return refused.code, {}

    def agent(self, rounds: int):
        """Ask, wait, collect, tell."""
        for _ in range(rounds):
            wish = {"tool": "Bash", "arguments": {"command": f"git push origin {uuid.uuid4().hex}"}}
            status, asked = self.call("POST", "/actions", wish)
            if status != 201:
                continue
            status = "pending"
            while status == "pending":
                status = self.call("GET", f"/actions/{asked['id']}?wait=5")[1].get("status")
            if status == "approved":
                self.call("POST", f"/actions/{asked['id']}/consume", {"digest": asked["digest"]})
                self.call("POST", f"/actions/{asked['id']}/outcome", {"status": "succeeded"})

    def reviewer(self, rounds: int):
        """Decide whatever waits, until standard input is closed."""
        decided, busy = 0, time.monotonic()
        while time.monotonic() - busy < QUIET and not select.select([sys.stdin], [], [], 0.05)[0]:
            for row in self.call("GET", "/actions?status=pending&limit=20")[1].get("actions", []):
                busy = time.monotonic()
                answer = {"verdict": "deny" if decided % 3 == 2 else "approve", "digest": row["digest"]}
                decided += self.call("POST", f"/actions/{row['id']}/decision", answer)[0] == 200


if __name__ == "__main__":
    client = Client(sys.argv[1], sys.argv[2])
    {"agent": client.agent, "reviewer": client.reviewer}[sys.argv[3]](int(sys.argv[4]))
    print(json.dumps(client.bad))
