"""`python -m bench.projects [NAME…] [--json]`: build real projects and run their test suites, held and not.

Each project comes from its package registry with what its tests need. The same commands run as an ordinary user
outside, then as calls of an agent in a connected folder that is held, then as an agent's commands in a sandbox. A
command that asks, or ends otherwise than outside, is printed and fails the run. Run as root it becomes `nobody`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.projects.sources import PROJECTS, Source
from tests.support.desk import Desk
from tests.support.held_calls import HeldCalls, give
from tests.support.product import Product

USER = 65534 if os.geteuid() == 0 else None
HOME = Path("/home") if USER else Path.home()  # a box has a /tmp of its own


@dataclass
class Result:
    """How one command ended: its exit status, its last line of output, the seconds that it took, and why it asked."""

    status: int | None
    last: str
    seconds: float
    asked: str = ""


def result(status: int | None, output: bytes, began: float, asked: str = "") -> Result:
    lines = output.decode(errors="replace").strip().splitlines()
    return Result(status, lines[-1][:100] if lines else "", time.perf_counter() - began, asked)


def outside(commands: list[str], calls: HeldCalls) -> list[Result]:
    found = []
    for command in commands:
        began = time.perf_counter()
        done = calls.run(command)
        found.append(result(done.returncode, done.stdout, began))
    return found


def in_folder(commands: list[str], calls: HeldCalls) -> list[Result]:
    """Ask the hook of the connected folder about each command, as Claude Code does, and run what it answers."""
    found = []
    for command in commands:
        began = time.perf_counter()
        try:
            ended = calls.call(command)
        except subprocess.TimeoutExpired:
            found.append(result(None, b"", began, "it waits for a person"))
            continue
        found.append(result(ended.status, ended.output, began, "" if ended.ran else ended.reason))
    return found


def in_sandbox(product: Product, commands: list[str], folder: Path) -> list[Result]:
    """Run each command as an agent in a sandbox that has a copy of the folder."""
    desk = Desk(product, product.agent_token("bench"))
    made = desk.create(driver="sandbox")
    assert made["state"] == "ready", made["reason"]
    packed = subprocess.run(["tar", "-cf", "-", "-C", folder, "."], check=True, capture_output=True).stdout
    key, found = made["key"], []
    desk.call("PUT", f"/workspaces/{key}/files/project.tar", packed, 201)
    desk.run(key, "tar -xf project.tar && rm project.tar")
    for command in commands:
        began = time.perf_counter()
        asked = desk.post(f"/workspaces/{key}/commands", {"command": command}).json["id"]
        while (done := desk.get(f"/commands/{asked}?wait=10").json)["state"] not in ("settled", "uncertain"):
            pass
        output = desk.get(f"/commands/{asked}/output").body
        found.append(result(done["exit_status"], output, began, "" if done["envelope"] else "it is not held"))
    return found


def measure(source: Source, product: Product, ground: Path) -> dict:
    """Run the project's commands in the three places, each in a copy of its own: {place: results}."""
    source.fetch(ground / "fetched")
    copies = {}
    for place in ("outside", "folder", "sandbox"):
        copies[place] = ground / place
        shutil.copytree(ground / "fetched", copies[place], symlinks=True)
        subprocess.run(["git", "init", "-q", copies[place]], check=True)
        give(copies[place], USER)
    bare = HeldCalls(copies["outside"], ground / "home", USER)
    held = HeldCalls(copies["folder"], ground / "home", USER)
    held.connect(product)
    return {
        "outside": outside(source.commands, bare),
        "folder": in_folder(source.commands, held),
        "sandbox": in_sandbox(product, source.commands, copies["sandbox"]),
    }


def differences(source: Source, places: dict) -> list[str]:
    found = []
    for place in ("folder", "sandbox"):
        for command, was, now in zip(source.commands, places["outside"], places[place], strict=True):
            if now.asked:
                found.append(f"{source.name}, {place}: `{command}` did not run held: {now.asked}")
            elif now.status != was.status:
                found.append(
                    f"{source.name}, {place}: `{command}` ended with {now.status}, outside {was.status}: {now.last}"
                )
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.projects", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PROJECTS, []], metavar="NAME")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    everything, wrong = {}, []
    with tempfile.TemporaryDirectory(prefix="handrail-projects-", dir=HOME, ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        product = Product(Path(top, "desk"), HANDRAIL_HELD="1")
        if USER:
            product.become(USER)
        try:
            product.start()
            for name in asked.names or PROJECTS:
                ground = Path(top, name)
                (ground / "home").mkdir(parents=True)
                give(ground, USER)
                places = measure(PROJECTS[name], product, ground)
                wrong += differences(PROJECTS[name], places)
                everything[name] = {place: [vars(each) for each in results] for place, results in places.items()}
                if not asked.json:
                    show(PROJECTS[name], places)
        finally:
            product.clean_up()
    if asked.json:
        print(json.dumps(everything, indent=1))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def show(source: Source, places: dict):
    for number, command in enumerate(source.commands):
        print(f"{source.name}: {command}")
        for place, results in places.items():
            each = results[number]
            print(f"  {place:8} {each.seconds:7.2f} s  exit {each.status}  {each.asked or each.last}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
