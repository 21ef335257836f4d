"""The OCI runtimes of an engine: which one a Run is started by, which have a kernel of their own, what those can do.

What runs in gVisor is proven by a canary, a container like those of workspaces: it says which kernel it sees and what
holds programs there. What was found is kept in HOME/docker/canaries.json.
"""

import contextlib
import io
import json
import tarfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, NotFound

from dashboard.files.atomic_write import replace_file
from workspaces.envelope import landlock

from ..base import DriverError
from ..sandbox.driver import UID
from . import bundle, container
from .engine import INSTALLATION, Engine

COUNTS_S = 24 * 3600.0  # how long what canaries found counts
# After how long a runtime that does not work is tried again: a busy machine passes, but each attempt of a runsc that
# cannot start leaves a process behind, so each time it is twice as long.
AGAIN_S, LONGEST_AGAIN_S = 120.0, 6 * 3600.0
CANARY_S = 60.0
LEFT_S = 600.0  # after which nobody waits for a canary any more
CANARY, IMAGE = "handrail.canary", "handrail/canary:1"
MARK = "/canary/mark"  # a file that a canary makes in its root
GVISOR, KATA = "runsc", "kata"
IN_WORDS = {GVISOR: "runsc (gVisor)", KATA: "Kata Containers"}
NO_LAYERS = (
    "What a setup installs is lost with the runtime {0}, since gVisor keeps changes of the root from the engine. "
    "Register it with the argument --overlay2=none, or use an image that has what the setup installs."
)
NOT_TO_NAME = (
    "An environment can name a runtime in gVisor, or the usual one of this host, {1}. {0} shares this machine's kernel."
)


@dataclass(frozen=True)
class Runtime:
    """A runtime of an engine. `kind`: GVISOR, KATA or "", which shares the host's kernel."""

    name: str
    kind: str = ""
    about: str = ""  # what the engine knows of it; a canary's findings count for this

    @classmethod
    def of(cls, name: str, told: Mapping) -> "Runtime":
        """Recognize its kind by its program, since the engine's configuration can give it any name."""
        program = f"{Path(told.get('path') or '').name} {told.get('runtimeType') or ''}"
        kind = next((kind for kind in IN_WORDS if kind in program), "")
        return cls(name, kind, json.dumps(told, sort_keys=True))

    @property
    def ignores_limits(self) -> bool:
        return "ignore-cgroups" in self.about


def known(info: Mapping) -> dict[str, Runtime]:
    """Return {name: runtime} of an engine's `docker info`."""
    return {name: Runtime.of(name, told) for name, told in (info.get("Runtimes") or {}).items()}


def choose(info: Mapping, usual: str | None, named: str = "") -> Runtime:
    """Return the runtime that an environment has `named`, or the `usual` one, by default the engine's.

    Raise DriverError if it cannot be used. An environment names gVisor or the usual one: among those that share the
    host's kernel, one may give containers more than another, such as devices, so whoever runs the host chooses.
    """
    there = known(info)
    usual_name = usual or info.get("DefaultRuntime") or "runc"
    wanted = named or usual_name
    if (named or usual) and wanted not in there:
        raise DriverError(f"This engine has no runtime {wanted!r}; it has {', '.join(sorted(there))}.")
    found = there.get(wanted, Runtime(wanted))
    if wanted != usual_name and not found.kind:
        raise DriverError(NOT_TO_NAME.format(wanted, usual_name))
    if found.kind == KATA:
        raise DriverError(
            f"{IN_WORDS[KATA]} runs programs on a kernel of its own, through which the first process of a workspace "
            "cannot be handed its socket."
        )
    return found


def when_again(found: Mapping) -> str:
    """Return when a runtime that does not work, with these facts, is tried again: as in "at 14:30 UTC"."""
    at = datetime.fromtimestamp(found["at"] + found["counts_s"], UTC)
    return f"at {at:%H:%M} UTC"


class Canaries:
    """Finds out what the runtimes of an engine can do. `folder` keeps what was found."""

    def __init__(self, engine: Engine, folder: Path):
        self.engine, self.folder = engine, folder

    def facts(self, runtime: Runtime, info: Mapping) -> dict:
        """Return {isolation, envelope, limits, layers} of a runtime; {why, …} of one that does not work."""
        limits = {limit for limit, key in container.SUPPORTED.items() if info.get(key)}
        if not runtime.kind:
            # Neither a user namespace nor a mount is allowed in a container: programs cannot get views of their own.
            abilities = {"landlock": landlock.abi(), "seccomp": True, "mount_view": False}
            return {"isolation": "container", "envelope": abilities, "limits": sorted(limits), "layers": True}
        found = self._found(runtime, info)
        if "why" in found:
            return found
        return {
            "isolation": "container-gvisor" if found["gvisor"] else "container",
            "envelope": found["abilities"],
            "limits": [] if runtime.ignores_limits else sorted(limits - {"pids"}),
            "layers": found["layers"],
        }

    def _found(self, runtime: Runtime, info: Mapping) -> dict:
        place = bundle.find_or_make(self.folder)
        about = [runtime.about, info.get("ID"), info.get("ServerVersion"), place.name]
        last = self._kept().get(runtime.name) or {}
        if last.get("about") != about or "counts_s" not in last:
            last = {}
        elif 0 <= time.time() - last["at"] < last["counts_s"]:
            return last
        try:
            found = self._sing(runtime, place) | {"counts_s": COUNTS_S}
        except DriverError as error:
            longer = 2 * last["counts_s"] if "why" in last else AGAIN_S
            found = {"why": str(error), "counts_s": min(longer, LONGEST_AGAIN_S)}
        found |= {"about": about, "at": time.time()}
        replace_file(self.folder / "canaries.json", json.dumps(self._kept() | {runtime.name: found}).encode())
        return found

    def _kept(self) -> dict:
        """Return {name of a runtime: what was found + {about, at, counts_s}, `at` in Unix time}."""
        try:
            return json.loads((self.folder / "canaries.json").read_text())
        except (OSError, ValueError):
            return {}

    def _sing(self, runtime: Runtime, place: Path) -> dict:
        """Return what a canary of the runtime says, and whether the engine sees the file that it made."""
        with self.engine.talk(CANARY_S) as client:
            self._remove_left(client)
            made = client.create_container(**self._description(client, runtime, place))["Id"]
            try:
                client.start(made)
                status = client.wait(made, timeout=CANARY_S)["StatusCode"]
                said = client.logs(made, stdout=True, stderr=status != 0).decode(errors="replace").strip()
                if status != 0:
                    raise DriverError(f"a container ended with {status}: {(said.splitlines() or [''])[-1][:300]}")
                changed = {entry["Path"] for entry in client.diff(made) or ()}
                return json.loads(said.splitlines()[-1]) | {"layers": MARK in changed}
            except APIError as error:
                raise DriverError(f"a container could not be started: {error.explanation or error}") from error
            except (ValueError, IndexError) as error:
                raise DriverError(f"a container said {said[:200]!r}") from error
            finally:
                with contextlib.suppress(APIError):
                    client.remove_container(made, force=True, v=True)

    def _description(self, client: APIClient, runtime: Runtime, place: Path) -> dict:
        return {
            "image": _image(client),
            "entrypoint": [*bundle.command(container.AT, "keeper.pyz"), "canary", MARK],
            "command": [],
            "environment": ["LC_ALL=C"],
            "user": f"{UID}:{UID}",
            "name": f"handrail-canary-{uuid.uuid4().hex[:12]}",
            "labels": {INSTALLATION: self.engine.installation, CANARY: str(int(time.time()))},
            "host_config": client.create_host_config(**container.canary_settings(place), runtime=runtime.name),
            "use_config_proxy": False,
        }

    def _remove_left(self, client: APIClient) -> None:
        """Remove the canaries of a runner that was killed; those that others wait for now are younger."""
        labels = [f"{INSTALLATION}={self.engine.installation}", CANARY]
        for found in client.containers(all=True, filters={"label": labels}):
            if int(found["Labels"][CANARY]) < time.time() - LEFT_S:
                with contextlib.suppress(NotFound):
                    client.remove_container(found["Id"], force=True, v=True)


def _image(client: APIClient) -> str:
    """Return the image of canaries, made if needed: it has nothing but a folder in which anybody may make files."""
    with contextlib.suppress(NotFound):
        return client.inspect_image(IMAGE)["Id"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        folder = tarfile.TarInfo(MARK.rpartition("/")[0].lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
    repository, tag = IMAGE.split(":")
    client.import_image_from_data(packed.getvalue(), repository=repository, tag=tag)
    return client.inspect_image(IMAGE)["Id"]
