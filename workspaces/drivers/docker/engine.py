"""A Docker engine of this host: API sessions, its errors as DriverError, and the containers that are ours."""

import contextlib
import hashlib
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import requests
from docker import APIClient
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import APIError, DockerException, NotFound

from ..base import BackendLost, DriverError

INSTALLATION, RUN, WORKSPACE = (f"handrail.{name}" for name in ("installation", "run", "workspace"))  # labels
ENGINE_S = 60.0
CONFLICT = 409  # the container does not run
PING_S = 5.0
LOST = "The Docker engine at {} does not answer ({})."


class EngineLost(BackendLost):
    """The engine does not answer, so the state of its containers is unknown."""


class Engine:
    """An engine at `address`. `folder` stores the id of this installation, which labels its containers and images."""

    def __init__(self, address: str, folder: Path):
        self.address = address
        self.folder = folder
        self._api_version = None

    @contextlib.contextmanager
    def talk(self, timeout: float = ENGINE_S) -> Iterator[APIClient]:
        """Yield an API client; errors of the engine and the connection are raised as DriverError."""
        client = None
        try:
            self._knock()
            if self._api_version is None:
                self._api_version = self._ask_version()
            client = APIClient(base_url=self.address, version=self._api_version, timeout=timeout)
            yield client
        except (requests.exceptions.RequestException, ConnectionError) as error:
            self._api_version = None  # the engine may come back with another version
            raise EngineLost(LOST.format(self.address, _cause(error))) from error
        except APIError as error:
            raise DriverError(f"The Docker engine refused: {error.explanation or error}") from error
        except DockerException as error:
            raise DriverError(f"The Docker engine at {self.address} cannot be used: {error}") from error
        finally:
            if client is not None:
                client.close()

    def _knock(self) -> None:
        """Raise EngineLost if nothing listens; checked here, because the SDK then leaves a socket open."""
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(5)
            try:
                trial.connect(self.address.removeprefix("unix://"))
            except OSError as error:
                raise EngineLost(LOST.format(self.address, error.strerror or error)) from error

    def silence(self, within: float = PING_S) -> str:
        """Return why the engine does not answer in so many seconds, "" if it does: by one ping over the socket."""
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(within)
            try:
                trial.connect(self.address.removeprefix("unix://"))
                trial.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return "" if trial.recv(1) else "it closed the connection"
            except OSError as error:
                return str(error.strerror or error)

    def _ask_version(self) -> str:
        """Return the API version to use: the lower one of the engine's and the SDK's."""
        with contextlib.closing(
            APIClient(base_url=self.address, version=DEFAULT_DOCKER_API_VERSION, timeout=5)
        ) as client:
            theirs = client.version(api_version=False)["ApiVersion"]
        return min(theirs, DEFAULT_DOCKER_API_VERSION, key=lambda version: [int(n) for n in version.split(".")])

    @property
    def installation(self) -> str:
        """Return the id of this HANDRAIL_HOME, which labels its containers and images.

        It includes the path: a copy of the folder must not treat the original's containers as leftovers.
        """
        path = self.folder / "installation"
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = path.with_name(f"installation.{uuid.uuid4().hex}")
            fresh.write_text(uuid.uuid4().hex)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # the first writer wins
            fresh.unlink()
        return hashlib.sha256(f"{path.read_text()} {self.folder.resolve()}".encode()).hexdigest()[:32]

    def tag_of(self, name: str) -> str:
        """Return the tag of an image we make, unique to this installation."""
        return f"{self.installation[:12]}-{name}"

    # Containers

    def paused(self, client: APIClient) -> dict[str, str]:
        """Return {run id: container's name} of our containers that are paused; Handrail itself pauses none."""
        filters = {"label": f"{INSTALLATION}={self.installation}", "status": "paused"}
        return {found["Labels"][RUN]: found["Names"][0].lstrip("/") for found in client.containers(filters=filters)}

    def name_of(self, run_id: str) -> str:
        return f"handrail-{self.installation[:12]}-{run_id}"

    def find(self, client: APIClient, run_id: str) -> dict | None:
        """Return the engine's description of a Run's container; None only if the engine reports that there is none."""
        try:
            found = client.inspect_container(self.name_of(run_id))
        except NotFound:
            return None
        labels = found["Config"]["Labels"] or {}
        if (labels.get(INSTALLATION), labels.get(RUN)) != (self.installation, run_id):
            raise DriverError(f"The container {found['Name'].lstrip('/')} is not Handrail's; it is left alone.")
        return found

    def remove(self, client: APIClient, run_id: str) -> None:
        """Remove a Run's container with its volumes, running or not; do nothing if there is none."""
        found = self.find(client, run_id)
        if found is not None:
            with contextlib.suppress(NotFound):
                client.remove_container(found["Id"], force=True, v=True)

    def kill(self, client: APIClient, found: dict) -> None:
        """Kill a container, paused or not; do nothing if it has ended meanwhile. `found`: as of `find`."""
        try:
            if found["State"].get("Paused"):
                client.unpause(found["Id"])  # a paused container cannot be killed
            client.kill(found["Id"])
        except NotFound:
            pass
        except APIError as error:
            if error.status_code != CONFLICT:
                raise

    def wait_for_end(self, client: APIClient, run_id: str) -> None:
        """Wait until the engine has noticed the end of a container's first process, which we may see earlier."""
        found = self.find(client, run_id)
        if found is not None and runs(found):
            with contextlib.suppress(NotFound, requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
                client.wait(found["Id"], timeout=5)


def runs(container: dict) -> bool:
    """Return whether a container has a live process, running or paused."""
    return container["State"]["Status"] in ("running", "paused", "restarting")


def why_init_failed(client: APIClient, container: str) -> str:
    """Return a sentence on why the container's init did not come up."""
    log = client.logs(container, tail=20).decode(errors="replace").strip()
    state = client.inspect_container(container)["State"]
    said = state.get("Error") or (log.splitlines() or [f"exit {state.get('ExitCode')}, and it said nothing"])[-1]
    return f"The container's init process did not start: {said[:300]}"


def _cause(error: BaseException) -> str:
    """Return the innermost cause as text, without the reprs of the wrapping exceptions."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return getattr(error, "strerror", None) or str(error)[:200]
