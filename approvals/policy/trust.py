"""What a policy trusts besides its rules: programs of the project, places outside the workspace, the code host."""

import posixpath
import re
from dataclasses import dataclass

from workspaces.envelope import agents

from .hidden_characters import hidden_in
from .impacts import CATASTROPHES
from .paths import is_protected, is_secret
from .rules import INTERPRETERS, SHELLS, WRAPPERS
from .verdict import PolicyError

MAX_PROGRAMS = 200
MAX_PLACES = 50
MAX_SERVERS = 100
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
DRIVE = re.compile(r"(?:/mnt)?/[A-Za-z](?=/(?:Users|home)(?:/|$))")  # of Windows, as its shells write it
SHA256 = re.compile(r"[0-9a-f]{64}")
# Programs that do what their words say: trusting one would trust every command.
NEVER = SHELLS | INTERPRETERS | WRAPPERS | {"awk", "gawk", "mawk", "sed", "find", "git", "docker", "podman", "rsync"}
NEVER |= {name for agent in agents.modules().values() for name in agent.PROGRAMS.split()}


@dataclass(frozen=True)
class Program:
    """One file that may run as a program of the project, as long as its bytes are these."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Server:
    """The one MCP server that rules for its name mean: its command line or address, and the digest of its entry."""

    name: str
    runs: str
    sha256: str


@dataclass(frozen=True)
class Trust:
    """The trust of a policy. `code_host`: reads there run; None: they run only where calls are held."""

    programs: tuple = ()
    places: tuple = ()
    code_host: bool | None = None
    servers: tuple = ()

    def programs_in(self, context):
        """Return the words that name a trusted program: those whose file and digest the context confirms."""
        found = context.get("programs")
        if not self.programs or not isinstance(found, dict):
            return frozenset()
        return frozenset(word for word, file in found.items() if self._confirms(word, file))

    def _confirms(self, word, file):
        if not isinstance(word, str) or not isinstance(file, dict):
            return False
        name = word.rsplit("/", 1)[-1]
        return any(
            (each.name, each.path, each.sha256) == (name, file.get("path"), file.get("sha256"))
            for each in self.programs
        )


def read_trust(data):
    """Return the Trust that the table `trust` of a policy describes; PolicyError says what is wrong with it."""
    if not isinstance(data, dict) or set(data) - {"programs", "places", "code_host", "servers"}:
        raise PolicyError("trust is a table with programs, places, servers and code_host.")
    programs, places, code_host = data.get("programs", []), data.get("places", []), data.get("code_host")
    if not isinstance(programs, list) or len(programs) > MAX_PROGRAMS:
        raise PolicyError(f"trust.programs is a list of at most {MAX_PROGRAMS} programs.")
    if not isinstance(places, list) or len(places) > MAX_PLACES:
        raise PolicyError(f"trust.places is a list of at most {MAX_PLACES} folders.")
    if code_host not in (None, True, False):
        raise PolicyError("trust.code_host is true or false.")
    servers = data.get("servers", [])
    if not isinstance(servers, list) or len(servers) > MAX_SERVERS:
        raise PolicyError(f"trust.servers is a list of at most {MAX_SERVERS} servers.")
    return Trust(tuple(map(_program, programs)), tuple(map(_place, places)), code_host, tuple(map(_server, servers)))


def _server(data):
    fields = ("name", "runs", "sha256")
    if not isinstance(data, dict) or set(data) != set(fields) or not all(isinstance(data[f], str) for f in fields):
        raise PolicyError("A trusted server has a name, what it runs, and a sha256.")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", data["name"]) or not SHA256.fullmatch(data["sha256"]):
        raise PolicyError(
            f"The trusted server {data['name']!r} needs a plain name and the SHA-256 of its entry in hex."
        )
    return Server(**data)


def _program(data):
    fields = ("name", "path", "sha256")
    if not isinstance(data, dict) or set(data) != set(fields) or not all(isinstance(data[f], str) for f in fields):
        raise PolicyError("A trusted program has a name, a path and a sha256.")
    name, path = data["name"], data["path"]
    if not NAME.fullmatch(name):
        raise PolicyError(f"{name!r} is not the plain name of a program.")
    real = path.rsplit("/", 1)[-1]
    if {name, real} & NEVER or re.fullmatch(r"(?:python|perl|ruby|node|php|lua)[0-9.]+", real):
        raise PolicyError(f"{name} runs whatever its words say, so it cannot be trusted as a program of the project.")
    if not _is_plain(path) or not SHA256.fullmatch(data["sha256"]):
        raise PolicyError(f"The trusted program {name} needs the absolute path of its file and its SHA-256 in hex.")
    return Program(name, path, data["sha256"])


def _place(path):
    if not isinstance(path, str) or not _is_plain(path):
        raise PolicyError(f"{path!r} is not the absolute path of a folder.")
    parts = DRIVE.sub("", path).strip("/").split("/")
    if path in CATASTROPHES or (len(parts) < 3 and parts[0] in ("home", "Users")) or parts[0] in ("proc", "sys", "dev"):
        raise PolicyError(f"{path} is too much to trust as a place; name a folder in it.")
    if is_secret(parts) or is_protected(parts):
        raise PolicyError(f"{path} holds secrets or settings, so it cannot be trusted as a place.")
    return path


def _is_plain(path):
    whole = path.startswith("/") and path != "/" and len(path) <= 1000 and posixpath.normpath(path) == path
    return whole and not hidden_in(path) and not re.search(r"[*?\[\]\n]", path)
