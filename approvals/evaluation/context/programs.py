"""Context for the policy: the files and digests of the programs that a policy trusts and a call names."""

import json
import posixpath

from approvals.evaluation.calls import root_of
from approvals.policy.shell_words import OPAQUE
from dashboard.problems import Problem
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 1.5  # for the runner's response; after that no program counts as trusted
MAX_WORDS = 50
PACKAGE_RUNNERS = ("npx", "bunx")


def programs_for(commands: list, cwd: str, workspace, trusted: list[dict]) -> dict:
    """Return {word of a command: {path, sha256}} of the words that name one of the trusted programs.

    `commands` are the entries of a first verdict on the call, `cwd` is the folder that it starts in.
    """
    names = {each["name"] for each in trusted}
    asked = dict(list(_asked(commands, cwd, names).items())[:MAX_WORDS])
    packaged = _packaged(commands, cwd, root_of(workspace), names)
    wanted = list(dict.fromkeys([*asked.values(), *(path for paths in packaged.values() for path in paths)]))
    if not wanted:
        return {}
    question = {"files": [[path, "program", False] for path in wanted], "seconds": RUNNER_TIMEOUT * 0.8}
    body = json.dumps(question).encode()
    try:
        told = runner_client.ask("POST", workspace, "contents", body=body, timeout=RUNNER_TIMEOUT)
    except Problem:
        return {}
    there = {file["path"] for file in told["files"]} if told["complete"] else set()
    found = {file["path"]: file["sha256"] for file in told["files"] if file["state"] == "file"}
    # A bare name is looked up in the folders of the search path, the first of which wins.
    bare = {path.rsplit("/", 1)[-1]: path for path in reversed(found)}
    files = {word: path if "/" in path else bare.get(path) for word, path in asked.items()}
    files |= {word: next((path for path in paths if path in there), None) for word, paths in packaged.items()}
    return {word: {"path": path, "sha256": found[path]} for word, path in files.items() if path in found}


def _packaged(commands: list, cwd: str, root: str, names: set) -> dict:
    """Return {word of the policy: paths, the first that exists being meant} of what `npx NAME` starts."""
    found = {}
    for step in commands[:MAX_WORDS]:
        words, folder = step["words"], posixpath.normpath(step["cwd"] or cwd)
        at = next((i for i, word in enumerate(words) if word in PACKAGE_RUNNERS), len(words))
        name = next((word for word in words[at + 1 :] if not word.startswith("-")), "")
        if name in names and step["cwd"] and f"{folder}/".startswith(f"{root.rstrip('/')}/"):
            below = folder[len(root.rstrip("/")) :].split("/")[1:]
            folders = [posixpath.join(root, *below[:end]) for end in range(len(below), -1, -1)]
            found[f"{folder}/node_modules/.bin/{name}"] = [f"{up}/node_modules/.bin/{name}" for up in folders]
    return found


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
