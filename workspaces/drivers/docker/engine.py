"""A Docker engine of this host: conversations with it, its errors in words, and the containers on it that are ours."""

import contextlib
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import requests
from docker import APIClient
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import APIError, DockerException, NotFound

from ..base import DriverError

INSTALLATION, RUN, WORKSPACE = (f"handrail.{name}" for name in ("installation", "run", "workspace"))  # labels
ENGINE_S = 60.0
LOST = "The Docker engine at {} does not answer ({})."


class EngineLost(DriverError):
    """The engine does not answer, so nobody can tell."""


class Engine:
    """`folder` holds what this installation knows of it: its own name, by which what is ours carries labels."""

    def __init__(self, address: str, folder: Path):
        self.address = address
        self.folder = folder
        self._api_version = None

    @contextlib.contextmanager
    def talk(self, timeout: float = ENGINE_S) -> Iterator[APIClient]:
        """A conversation with the engine; what goes wrong in it is a DriverError with words."""
        client = None
        try:
            self._knock()
            if self._api_version is None:
                self._api_version = self._ask_version()
            client = APIClient(base_url=self.address, version=self._api_version, timeout=timeout)
            yield client
        except (requests.exceptions.RequestException, ConnectionError) as error:
            self._api_version = None  # the one that comes back may be another
            raise EngineLost(LOST.format(self.address, _cause(error))) from error
        except APIError as error:
            raise DriverError(f"The Docker engine refused: {error.explanation or error}") from error
        except DockerException as error:
            raise DriverError(f"The Docker engine at {self.address} cannot be used: {error}") from error
        finally:
            if client is not None:
                client.close()

    def _knock(self) -> None:
        """Find out by ourselves whether anybody listens: the SDK leaves its socket open when nobody does."""
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(5)
            try:
                trial.connect(self.address.removeprefix("unix://"))
            except OSError as error:
                raise EngineLost(LOST.format(self.address, error.strerror or error)) from error

    def _ask_version(self) -> str:
        with contextlib.closing(
            APIClient(base_url=self.address, version=DEFAULT_DOCKER_API_VERSION, timeout=5)
        ) as client:
            theirs = client.version(api_version=False)["ApiVersion"]
        return min(theirs, DEFAULT_DOCKER_API_VERSION, key=lambda version: [int(n) for n in version.split(".")])

    @property
    def installation(self) -> str:
        """A name of this HANDRAIL_HOME, by which containers and layers are known to be its own."""
        path = self.folder / "installation"
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = path.with_name(f"installation.{uuid.uuid4().hex}")
            fresh.write_text(uuid.uuid4().hex)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # whoever is first
            fresh.unlink()
        return path.read_text()

    # Containers of ours

    def name_of(self, run_id: str) -> str:
        return f"handrail-{self.installation[:12]}-{run_id}"

    def find(self, client: APIClient, run_id: str) -> dict | None:
        """The container of a Run, as the engine describes it; None only when the engine says that there is none."""
        try:
            found = client.inspect_container(self.name_of(run_id))
        except NotFound:
            return None
        labels = found["Config"]["Labels"] or {}
        if (labels.get(INSTALLATION), labels.get(RUN)) != (self.installation, run_id):
            raise DriverError(f"The container {found['Name'].lstrip('/')} is not Handrail's; it is left alone.")
        return found

    def remove(self, client: APIClient, run_id: str) -> None:
        found = self.find(client, run_id)
        if found is not None:
            with contextlib.suppress(NotFound):
                client.remove_container(found["Id"], force=True, v=True)

    def wait_for_end(self, client: APIClient, run_id: str) -> None:
        """The engine notes a moment later than we that a first process has ended."""
        found = self.find(client, run_id)
        if found is not None and runs(found):
            with contextlib.suppress(NotFound, requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
                client.wait(found["Id"], timeout=5)


def runs(container: dict) -> bool:
    return container["State"]["Status"] in ("running", "paused", "restarting")


def _cause(error: BaseException) -> str:
    """The innermost reason, without the object that it happened to."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return getattr(error, "strerror", None) or str(error)[:200]
