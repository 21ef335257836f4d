"""The API as one agent uses it: workspaces, commands, operations."""

import time
import uuid

# Code for `Product.shell`: only a superuser drains hosts and says that one is lost.
SUPERUSER = (
    "from django.contrib.auth import get_user_model; "
    "get_user_model().objects.filter(username={name!r}).update(is_superuser=True)"
)


class Desk:
    """The API as one agent sees it; every call says what status it expects (None: any)."""

    looks = 60  # of five seconds each, until a workspace is settled

    def __init__(self, product, token):
        self.product, self.token = product, token

    def call(self, method, path, body=None, expect=200, **options):
        answer = self.product.call(method, f"/api/v1{path}", self.token, body, **options)
        assert expect is None or answer.status == expect, (
            method,
            path,
            answer.status,
            answer.body[:2000],
            self._log(answer),
        )
        return answer

    def _log(self, answer):
        """What the product printed last, where something broke in it."""
        return self.product.log[-4000:] if answer.status >= 500 else ""

    def get(self, path, expect=200, **options):
        return self.call("GET", path, None, expect, **options)

    def post(self, path, body=None, expect=201, **options):
        return self.call("POST", path, {} if body is None else body, expect, **options)

    def create(self, key=None, expect=201, **wish):
        """Make a workspace and wait until it is settled."""
        key = key or f"ws-{uuid.uuid4().hex[:10]}"
        self.post("/workspaces", {"key": key, **wish}, expect)
        return self.settled(key)

    def settled(self, key):
        """The workspace once nothing is in flight (at most five minutes)."""
        for _ in range(self.looks):
            workspace = self.get(f"/workspaces/{key}?wait=5").json
            if workspace["busy"] is None:
                return workspace
        raise AssertionError(f"{key} is still busy with {workspace['busy']}")

    def run(self, key, command, expect_exit=0, **wish):
        """Run a shell command to its end; its output."""
        done = self.finished(self.post(f"/workspaces/{key}/commands", {"command": command, **wish}).json["id"])
        output = self.get(f"/commands/{done['id']}/output").body
        assert done["exit_status"] == expect_exit, (done, output[-2000:])
        return output

    def finished(self, command_id):
        for _ in range(60):
            command = self.get(f"/commands/{command_id}?wait=10").json
            if command["state"] in ("settled", "uncertain"):
                return command
        raise AssertionError(f"still running: {command}")

    def operation(self, key, operation_id):
        """Long work once it is over (at most five minutes)."""
        for _ in range(1200):
            operation = self.get(f"/workspaces/{key}/operations/{operation_id}").json
            if operation["phase"] in ("settled", "uncertain"):
                return operation
            time.sleep(0.25)
        raise AssertionError(f"still under way: {operation}")
