"""An agent keeps files of its workspace as an artifact, and begins the next workspace of the repository with them."""

import io
import zipfile


def test_what_one_workspace_made_the_next_begins_with(desk, repository):
    path, *_ = repository
    source = {"git": str(path)}
    first = desk.create(source=source)["key"]
    desk.run(first, "mkdir -p dist && printf built > dist/app.txt && chmod 755 dist/app.txt")
    number = desk.post(f"/workspaces/{first}/snapshots", {}).json["number"]
    kept = desk.post(f"/workspaces/{first}/artifacts", {"name": "build", "paths": ["dist"], "days": 30}).json
    assert (kept["snapshot"], kept["is_ready"], kept["entries"], kept["bytes"]) == (number, True, 2, 5)
    found = zipfile.ZipFile(io.BytesIO(desk.get(f"/artifacts/{kept['id']}/zip").body))
    assert found.read("dist/app.txt") == b"built"
    second = desk.create(source=source, artifacts=["build"])["key"]
    shown = desk.run(
        second, "cat artifacts/build/dist/app.txt && test -x artifacts/build/dist/app.txt && git status -s"
    )
    assert shown == b"built"
    refused = desk.post("/workspaces", {"key": "elsewhere", "source": source, "artifacts": ["nothing"]}, expect=422)
    assert refused.json["detail"] == "There is no artifact named 'nothing' of this repository."
