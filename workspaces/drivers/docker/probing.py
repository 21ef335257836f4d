"""What an engine of this host can do for workspaces: asked of it, and for runtimes in gVisor tried by canaries."""

import shutil
from collections.abc import Mapping

from ..base import DriverError, Probe
from . import bundle, container, runtimes
from .engine import Engine, EngineLost
from .runtimes import GVISOR, IN_WORDS, KATA, Canaries

WEAKEST = "container"
REACH = (
    "let Handrail's user reach its socket (group docker, which is as good as root), or name another socket in "
    "HANDRAIL_DOCKER_HOST."
)
INSTALL = f"Install Docker on this host (Debian: `apt install docker.io`) and {REACH}"
START = "Start it: `systemctl start docker`, or name another socket in HANDRAIL_DOCKER_HOST."
NOT_HERE = "{} is no socket of this host, and containers are shown folders of this host."


def probe(engine: Engine, canaries: Canaries, usual: str | None) -> Probe:
    """Return the probe of the driver; `usual` names the runtime of environments that name none."""
    if not engine.address.startswith("unix://"):
        return Probe(False, NOT_HERE.format(engine.address), INSTALL, isolation=WEAKEST)
    try:
        with engine.talk(timeout=10) as client:
            info = client.info()
            has_base = bool(client.images("handrail/base"))
        bundle.find_or_make(canaries.folder)
    except EngineLost as error:
        if "Permission denied" in str(error):
            what_to_do = f"{REACH[0].upper()}{REACH[1:]}"
        else:
            what_to_do = START if shutil.which("docker") or shutil.which("dockerd") else INSTALL
        return Probe(False, str(error), what_to_do, isolation=WEAKEST)
    except DriverError as error:
        return Probe(False, str(error), INSTALL, isolation=WEAKEST)
    reason, what_to_do = _unfit(info) or _unfit_runtime(info, usual)
    if reason:
        return Probe(False, reason, what_to_do, isolation=WEAKEST)
    return _judged(canaries, info, usual, has_base)


def _judged(canaries: Canaries, info: Mapping, usual: str | None, has_base: bool) -> Probe:
    chosen, there = runtimes.choose(info, usual), runtimes.known(info)
    classes = {chosen.name: canaries.facts(chosen, info)}
    classes |= {name: canaries.facts(each, info) for name, each in there.items() if each.kind == GVISOR}
    facts = classes[chosen.name]
    if "why" in facts:
        why = f"The runtime {chosen.name} does not work: {facts['why']}."
        again = f"Handrail tries again {runtimes.when_again(facts)}, or when its entry in daemon.json has changed"
        what_to_do = f"Correct what it names; {again}. Or set HANDRAIL_DOCKER_RUNTIME."
        return Probe(False, why, what_to_do, isolation=WEAKEST)
    notes = [f"Docker {info.get('ServerVersion')}, runtime {chosen.name}."]
    if missing := [name for name in ("memory", "cpus", "pids") if name not in facts["limits"]]:
        notes.append(f"Limits for {', '.join(missing)} cannot be enforced by this engine.")
    if not has_base:
        notes.append("There is no handrail/base image yet; `make images` builds it.")
    return Probe(
        True,
        notes=(*notes, *_notes(there, classes)),
        limits=frozenset(facts["limits"]),
        isolation=facts["isolation"],
        envelope=facts["envelope"],
        classes={name: found for name, found in classes.items() if "why" not in found},
    )


def _notes(there: Mapping[str, runtimes.Runtime], classes: Mapping[str, Mapping]) -> list[str]:
    """Return sentences on the runtimes that do not share the host's kernel."""
    notes = []
    for name, each in sorted(there.items()):
        found = classes.get(name, {"why": f"{IN_WORDS.get(each.kind)} gives a workspace no way to its first process"})
        if not each.kind:
            continue
        if "why" in found:
            again = f" Handrail tries again {runtimes.when_again(found)}." if name in classes else ""
            notes.append(f"The runtime {name} cannot be used: {found['why']}.{again}")
            continue
        lacks = [] if "pids" in found["limits"] else ["no limit on processes"]
        lacks += [] if found["layers"] else ["no layers of setups"]
        notes.append(f"The runtime {name}: {', '.join([found['isolation'], *lacks])}.")
    return notes


def _unfit(info: Mapping) -> tuple[str, str]:
    """Return (reason, what to do) if this engine cannot provide what the driver promises, else ()."""
    if info.get("OSType") != "linux":
        return "This engine runs no Linux containers.", "Use a Docker engine on Linux."
    if container.has(info, "rootless"):
        return (
            "This engine is rootless: a workspace's files would belong to users of its own.",
            "Use the host's ordinary engine, or the sandbox, which needs no root.",
        )
    if not container.has(info, "seccomp") or container.has(info, "seccomp,profile=unconfined"):
        return (
            "This engine starts containers without a seccomp filter.",
            "Start it with its built-in profile, on a kernel that has seccomp.",
        )
    return ()


def _unfit_runtime(info: Mapping, usual: str | None) -> tuple[str, str]:
    """Return (reason, what to do) if the runtime of environments that name none cannot be used, else ("", "")."""
    try:
        runtimes.choose(info, usual)
    except DriverError as error:
        what_to_do = (
            "Register it in the engine's daemon.json, or set HANDRAIL_DOCKER_RUNTIME to another, or to nothing."
        )
        if IN_WORDS[KATA] in str(error):
            what_to_do = (
                "Set HANDRAIL_DOCKER_RUNTIME to runc, crun, runsc, or nothing. For a machine of their own, workspaces "
                "have the driver microvm."
            )
        return str(error), what_to_do
    return "", ""
