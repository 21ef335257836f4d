"""The init container of a pod: make what the pod's own user must own, before any program of the workspace runs.

    python3 keeper.pyz bring

/.handrail/given  the Secret of the Run, which the workspace's container does not mount
/.handrail/files  the volume of the files: `tree` and `home` are made in it, which the container mounts
/.handrail/etc    files that the workspace's container mounts read-only below /etc
/.handrail/once   what the keeper reads and removes before it starts any program: its key
"""

import json
import os

GIVEN, FILES, ETC, ONCE = (f"/.handrail/{name}" for name in ("given", "files", "etc", "once"))
FOR_KEEPER = ("keeper.crt", "keeper.key", "runner.crt", "keeper.json")


def main():
    os.umask(0o022)
    for name in ("tree", "home"):
        os.makedirs(f"{FILES}/{name}", mode=0o755, exist_ok=True)
    for name in FOR_KEEPER:
        with open(f"{GIVEN}/{name}", "rb") as file:
            put(f"{ONCE}/{name}", file.read(), 0o600)
    with open(f"{GIVEN}/etc.json") as file:
        wanted = json.load(file)
    for path, text in wanted.items():
        os.makedirs(os.path.dirname(f"{ETC}/{path}"), mode=0o755, exist_ok=True)
        put(f"{ETC}/{path}", os.fsencode(text), 0o555 if text.startswith("#!") else 0o444)


def put(path, content, mode):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
