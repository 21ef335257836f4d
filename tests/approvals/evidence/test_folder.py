"""Evidence in a user's own folder, where even putting back asks when an agent wants it."""

import json
import shlex
from pathlib import Path

from tests.approvals.connect.test_connect_folder import connected, folder, hook_line  # noqa: F401 (fixtures)


def test_deletes_pushes_and_restores_are_weighed_in_the_users_own_folder(product, connected, person):  # noqa: F811
    files = [Path(word) for word in shlex.split(hook_line(connected)) if word.startswith("/") and Path(word).is_file()]
    texts = [json.loads(path.read_text()) for path in files if path.suffix == ".json"]
    token = next(text["token"] for text in texts)
    rows = product.get("/api/v1/workspaces", person.token).json["workspaces"]
    key = next(row["key"] for row in rows if row["source"].get("path") == str(connected))
    body = {"tool": "Bash", "workspace": key, "arguments": {"command": "rm calc.py && git push origin HEAD"}}
    found = person.evidence(product.post("/api/v1/actions", token, body).json)["findings"]
    assert found[0]["says"] == ["Deletes 1 file, 9 bytes.", "Tracked by git."]
    assert found[1]["says"][0] == "Pushes to origin, which is not a remote of this repository."
    assert found[1]["says"][1].endswith("1 commit, 2 files, +2 −0.")
    number = product.get(f"/api/v1/workspaces/{key}", token).json["head_snapshot"]
    path = f"/api/v1/workspaces/{key}/snapshots/{number}/restore"
    asked = product.post(path, token).json["action"]
    before = person.evidence(asked)["findings"][0]["says"][0]
    (connected / "calc.py").write_text("print(2)\n")
    after = person.evidence(asked)["findings"][0]["says"][0]
    counts = [int(said.split()[0]) for said in (before, after)]
    assert counts[1] == counts[0] + 1
    assert after == f"{counts[1]} files differ from snapshot {number} now."
