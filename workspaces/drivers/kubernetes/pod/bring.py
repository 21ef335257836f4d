"""The init container of a pod: make what the pod's own user must own, before any program of the workspace runs.

    python3 keeper.pyz bring

/.handrail/given  the Secret of the Run or of a pool, which the workspace's container does not mount
/.handrail/files  the volume of the files: `tree` and `home` are made in it, which the container mounts
/.handrail/etc    files that the workspace's container mounts read-only below /etc
/.handrail/once   what the keeper reads and removes before it starts any program: its key
"""

import json
import os

GIVEN, FILES, ETC, ONCE = (f"/.handrail/{name}" for name in ("given", "files", "etc", "once"))
FOR_KEEPER = ("keeper.crt", "keeper.key", "runner.crt", "keeper.json")  # the last one says that all are there


def main():
    os.umask(0o022)
    for name in ("tree", "home"):
        os.makedirs(f"{FILES}/{name}", mode=0o755, exist_ok=True)
    given = {name: read(name) for name in os.listdir(GIVEN) if not name.startswith(".")}
    if "folders.json" in given:  # of a pool: the rest is told by whoever claims the pod
        for name in json.loads(given["folders.json"]):
            os.makedirs(f"{ETC}/{name}", mode=0o755, exist_ok=True)
        put_etc(given["etc.json"])
    else:
        hand_on(given)


def read(name):
    with open(f"{GIVEN}/{name}") as file:
        return file.read()


def hand_on(given):
    """Put the files below /etc in place, and the keeper's own where it looks for them."""
    put_etc(given["etc.json"])
    for name in FOR_KEEPER:
        put(f"{ONCE}/.{name}", given[name].encode(), 0o600)
        os.rename(f"{ONCE}/.{name}", f"{ONCE}/{name}")


def put_etc(text):
    """Put files below /etc; those that are there already are of the pool, and the same for every Run."""
    for path, content in json.loads(text).items():
        os.makedirs(os.path.dirname(f"{ETC}/{path}"), mode=0o755, exist_ok=True)
        if not os.path.exists(f"{ETC}/{path}"):
            put(f"{ETC}/{path}", os.fsencode(content), 0o555 if content.startswith("#!") else 0o444)


def put(path, content, mode):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
