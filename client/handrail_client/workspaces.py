"""Workspaces: make and use them, run commands, read and write files, push folders, take and restore snapshots."""

import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from handrail_client.actions import POLL, Action, Actions
from handrail_client.errors import Denied, HandrailError, Refused
from handrail_client.http import Http
from handrail_client.packing import pack

OVER = ("settled", "uncertain")


class Workspaces:
    """The workspaces that a token may see."""

    def __init__(self, http: Http, actions: Actions):
        self.http, self._actions = http, actions

    # Life -------------------------------------------------------------------------------------------------------------

    def all(self, **filters) -> Iterator[dict]:
        """Yield all workspaces; filters are those of the API, such as state, label, owner and sort."""
        return self._pages("/workspaces", "workspaces", **filters)

    def get(self, key: str) -> dict:
        return self.http.get(f"/workspaces/{key}")

    def create(self, key: str, **wish) -> dict:
        """Make the workspace, or resume the one that has this key; return it once nothing moves it any more."""
        self.http.post("/workspaces", {"key": key} | wish)
        return self.settled(key)

    def settled(self, key: str, *, timeout: float | None = None) -> dict:
        """Return the workspace once no operation moves it, or as it is after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.http.get(f"/workspaces/{key}", wait=POLL)
            if found["busy"] is None or (end is not None and time.monotonic() > end):
                return found

    def move(self, key: str, verb: str) -> dict:
        """Pause, resume, stop or archive the workspace; return it once that is done."""
        if verb not in ("pause", "resume", "stop", "archive"):
            raise HandrailError(f"A workspace can't {verb}.")
        self._answered("POST", f"/workspaces/{key}/{verb}", {})
        return self.settled(key)

    def delete(self, key: str) -> dict:
        return self._answered("DELETE", f"/workspaces/{key}")

    # Commands ---------------------------------------------------------------------------------------------------------

    def run(self, key: str, command: str | list[str], *, idempotency_key: str | None = None, **wish) -> dict:
        """Start a command, a shell line or a list of words; return it. The same idempotency key starts it once."""
        named = {"command": command} if isinstance(command, str) else {"argv": list(command)}
        return self._answered("POST", f"/workspaces/{key}/commands", named | wish, key=idempotency_key)

    def finished(self, command_id: str) -> dict:
        """Return the command once it is over."""
        while True:
            found = self.http.get(f"/commands/{command_id}", wait=POLL)
            if found["state"] in OVER:
                return found

    def output(self, command_id: str, *, offset: int = 0, follow: bool = True) -> Iterator[bytes]:
        """Yield the output from an offset; with `follow` until the command ends."""
        return self.http.pieces(f"/commands/{command_id}/output", offset=offset, follow=str(follow).lower())

    def search_output(self, command_id: str, pattern: str, **wish) -> dict:
        """Return the lines of the output so far that match, as {"lines", "found", "more_from"}.

        `wish`: fixed, ignore_case, before, after, limit, from_line. A line is {"n", "text", "matches", …}.
        """
        return self.http.get(f"/commands/{command_id}/output/search", pattern=pattern, **_as_query(wish))

    def query_output(self, command_id: str, sql: str, **wish) -> dict:
        """Return the answer of one SELECT over the table `output`; `wish`: format, first_line, limit.

        {"columns", "rows", "truncated", "table"}
        """
        return self.http.post(f"/commands/{command_id}/output/query", {"sql": sql} | wish)

    def search_file(self, key: str, path: str, pattern: str, **wish) -> dict:
        """Return the lines of a file that match, as `search_output` does; `wish` may name a `snapshot`."""
        return self.http.get(f"/workspaces/{key}/search", path=path, pattern=pattern, **_as_query(wish))

    def query_file(self, key: str, path: str, sql: str, **wish) -> dict:
        """Return the answer of one SELECT over the table `file`, as `query_output`; `wish` may name a `snapshot`."""
        return self.http.post(f"/workspaces/{key}/query", {"path": path, "sql": sql} | wish)

    # Files ------------------------------------------------------------------------------------------------------------

    def files(self, key: str, path: str = "", *, snapshot: int | None = None) -> list[dict]:
        """Return the entries of a folder, of the files as they are or of a snapshot."""
        where = "" if not path.strip("/") else path.strip("/") + "/"
        told = self.http.get(f"/workspaces/{key}/files/{where}", snapshot=snapshot)
        if not isinstance(told.get("entries"), list):
            raise HandrailError(f"{path} is a file.")
        return told["entries"]

    def read(self, key: str, path: str, *, snapshot: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        query = {} if snapshot is None else {"snapshot": snapshot}
        return self.http.pieces(f"/workspaces/{key}/files/{path.strip('/')}", **query)

    def write(self, key: str, path: str, data) -> dict:
        """Write bytes, or a file that is open for reading, to a path; missing folders are made."""
        return self._answered("PUT", f"/workspaces/{key}/files/{path.strip('/')}", data)

    def remove(self, key: str, path: str) -> dict:
        return self._answered("DELETE", f"/workspaces/{key}/files/{path.strip('/')}")

    def push(
        self,
        folder: str | Path,
        key: str,
        *,
        replace: bool = False,
        base: int | None = None,
        ignore: Iterable[str] = (),
    ) -> dict:
        """Send a folder as a new workspace, or as the next revision of one.

        What git ignores stays here, and what `ignore` (patterns of a .gitignore) or handrail.toml names.
        Refused (409) lists `conflicts`: changed on both sides since snapshot `base`.
        """
        with tempfile.TemporaryFile() as archive:
            pack(Path(folder), archive, ignore)
            upload = self.http.json("POST", "/uploads", archive)["id"]
        try:
            return self.create(key, source={"upload": upload})
        except Refused as refused:
            if list(refused.told.get("differs") or {}) != ["source"]:
                raise
        wish = {"upload": upload, "mode": "replace" if replace else "merge"} | ({} if base is None else {"base": base})
        told = self.http.post(f"/workspaces/{key}/revisions", wish)
        workspace = self.settled(key)
        if told["revision"] is None:  # it took longer than the request waits
            outcome = self.http.get(f"/workspaces/{key}/operations/{told['operation']}")["outcome"] or {"ok": True}
            if not outcome["ok"]:
                raise Refused(409, outcome | {"detail": outcome["reason"]})
        return workspace

    # Snapshots and notes ----------------------------------------------------------------------------------------------

    def snapshots(self, key: str) -> Iterator[dict]:
        """Yield the snapshots, the newest first."""
        return self._pages(f"/workspaces/{key}/snapshots", "snapshots")

    def snapshot(self, key: str, label: str = "") -> dict:
        """Take a snapshot now; return it."""
        return self.http.post(f"/workspaces/{key}/snapshots", {"label": label} if label else {})

    def restore(self, key: str, number: int, paths: list[str] | None = None) -> dict:
        """Put the files of a snapshot back, all or the named ones; a safety snapshot is taken before."""
        body = {"paths": list(paths)} if paths else {}
        return self._answered("POST", f"/workspaces/{key}/snapshots/{number}/restore", body)

    def notes(self, key: str) -> dict:
        """Return the workspace's notes: {"text", "sha256", "current"}."""
        return self.http.get(f"/workspaces/{key}/notes")

    def write_notes(self, key: str, text: str, *, seen: str | None = None) -> dict:
        """Replace the notes; with `seen` (a sha256) only if they are still those that were read."""
        return self._answered("PUT", f"/workspaces/{key}/notes", {"text": text} | ({"seen": seen} if seen else {}))

    # Common -----------------------------------------------------------------------------------------------------------

    def _pages(self, path: str, name: str, **query) -> Iterator[dict]:
        cursor: str | None = ""
        while cursor is not None:
            page = self.http.get(path, cursor=cursor, **query)
            yield from page[name]
            cursor = page["cursor"]

    def _answered(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> dict:
        """Send the request. Where a person has to allow it first, wait for that, and return what came of it."""
        key = key or str(uuid.uuid4())
        while True:
            try:
                told = self.http.json(method, path, body, key=key)
            except Refused as refused:
                if refused.code in ("denied", "expired", "cancelled"):
                    raise Denied(str(refused)) from None
                raise
            asked = told.get("action")
            if not isinstance(asked, dict) or told.get("status") not in ("pending", "approved", "running"):
                return told
            if "id" in told:
                return told  # the command that an approved action has started
            self._actions.wait_until_over(self._find(asked["id"]))

    def _find(self, action_id: str) -> Action:
        return self._actions.get(action_id)


def _as_query(wish: dict) -> dict:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in wish.items()}
