"""Context for the policy: the files and digests of the programs that a policy trusts and a call names."""

import json
import posixpath

from approvals.policy.shell_words import OPAQUE
from dashboard.problems import Problem
from workspaces import runner_client

RUNNER_TIMEOUT = 1.5  # for the runner's response; after that no program counts as trusted
MAX_WORDS = 50


def programs_for(commands: list, cwd: str, workspace, trusted: list[dict]) -> dict:
    """Return {word of a command: {path, sha256}} of the words that name one of the trusted programs.

    `commands` are the entries of a first verdict on the call, `cwd` is the folder that it starts in.
    """
    names = {each["name"] for each in trusted}
    asked = dict(list(_asked(commands, cwd, names).items())[:MAX_WORDS])
    if not asked:
        return {}
    question = {"files": [[path, "program", False] for path in asked.values()], "seconds": RUNNER_TIMEOUT * 0.8}
    body = json.dumps(question).encode()
    try:
        told = runner_client.ask("POST", f"/workspaces/{workspace.pk}/contents", body=body, timeout=RUNNER_TIMEOUT)
    except Problem:
        return {}
    found = {file["path"]: file["sha256"] for file in told["files"] if file["state"] == "file"}
    # A bare name is looked up in the folders of the search path, the first of which wins.
    bare = {path.rsplit("/", 1)[-1]: path for path in reversed(found)}
    files = {word: path if "/" in path else bare.get(path) for word, path in asked.items()}
    return {word: {"path": path, "sha256": found[path]} for word, path in files.items() if path in found}


def _asked(commands: list, cwd: str, names: set) -> dict:
    """Return {word: absolute path, or the bare name} of the words with one of these names."""
    asked = {}
    for step in commands:
        for word in step["words"]:
            if OPAQUE in word or "\0" in word or word.rsplit("/", 1)[-1] not in names:
                continue
            if "/" not in word:
                asked[word] = word
            elif word.startswith("/") or step["cwd"]:
                path = posixpath.normpath(posixpath.join(step["cwd"] or cwd, word))
                if asked.setdefault(word, path) != path:
                    names = names - {word.rsplit("/", 1)[-1]}  # the same word means two files
    return {word: path for word, path in asked.items() if word.rsplit("/", 1)[-1] in names}
