"""Context for the policy: the texts of the scripts of the workspace that a call runs."""

import base64
import json
import posixpath

from approvals.evaluation.calls import beneath, root_of
from approvals.policy.paths import is_secret
from approvals.policy.shell_words import OPAQUE
from dashboard.problems import Problem
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 1.5  # for the runner's response; after that no script counts as read
MAX_SCRIPTS = 10
READERS = ("bash", "sh", "python3", "python")


def scripts_for(commands: list, cwd: str, workspace) -> dict:
    """Return {"scripts": {path: text}} of those that the entries of a first verdict run, {} if there are none."""
    root = root_of(workspace)
    paths = [path for step in commands for path in _named(step, cwd, root)]
    asked = [[path, "script", True] for path in dict.fromkeys(paths)][:MAX_SCRIPTS]
    if not asked:
        return {}
    body = json.dumps({"files": asked, "seconds": RUNNER_TIMEOUT * 0.8}).encode()
    try:
        told = runner_client.ask("POST", workspace, "contents", body=body, timeout=RUNNER_TIMEOUT)
    except Problem:
        return {}
    texts = {file["path"]: _text(file) for file in told["files"]}
    return {"scripts": {path: text for path, text in texts.items() if text is not None}}


def _named(step: dict, cwd: str, root: str):
    """Yield the absolute path of the script that a command runs, if it lies in the workspace and is no secret."""
    words = step["words"]
    if statements := [word for word in (*words, *step["targets"]) if word.endswith(".sql") and OPAQUE not in word]:
        yield from _inside(statements[:MAX_SCRIPTS], step["cwd"] or cwd, root)
        return
    if words and "/" in words[0]:
        given = words
    else:
        at = next((i for i, word in enumerate(words) if word in READERS), len(words))
        given = [word for word in words[at + 1 :] if not word.startswith("-")]
    if given and OPAQUE not in given[0]:
        yield from _inside(given[:1], step["cwd"] or cwd, root)


def _inside(names: list[str], folder: str, root: str):
    for name in names:
        if "\0" not in name and beneath(name, folder, root):
            path = posixpath.normpath(posixpath.join(folder, name))
            if not is_secret(path[len(root) :].strip("/").split("/")):
                yield path


def _text(file: dict) -> str | None:
    try:
        return base64.b64decode(file["content"]).decode() if "content" in file else None
    except UnicodeDecodeError:
        return None
