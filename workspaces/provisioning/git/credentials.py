"""What a team gives Handrail for its repositories at one origin: a token, or an ssh key with the host's pinned key."""

import base64
import re
from dataclasses import dataclass, field

from workspaces.provisioning.git.addresses import PORTS, Git
from workspaces.provisioning.git.output import clean

_NOT_LET_IN = {
    "http": re.compile(
        r"could not read (?:Username|Password) for|Authentication failed|Access denied|returned error: 40[13]\b"
    ),
    "ssh": re.compile(r"Permission denied|Too many authentication failures|Host key verification failed|Load key "),
}
_REFUSED_BEFORE = re.compile(r"denied|not found|could not be found|read only|write access")  # what ssh hosts say before
_UNREAD = "Could not read from remote"
_NOT_FOUND = re.compile(r"fatal: repository '[^'\n]*' not found|returned error: 404\b")  # what a token does not open
_OTHER_KEY = "Host key verification failed"


@dataclass(frozen=True)
class Credential:
    """A credential for exactly one origin, or with neither token nor key what a lead can set: `name` at `origin`."""

    name: str = ""  # of the secret
    token: str = field(default="", repr=False)  # the password for an HTTP host
    ssh_key: str = field(default="", repr=False)  # in OpenSSH's format, without a passphrase
    host_key: str = ""  # keys of the ssh host, such as "ssh-ed25519 AAAA…", one on each line
    origin: str = ""  # as `Secret.origin` writes it
    withheld: str = ""  # why the secret of this name is not used, as a sentence

    @property
    def is_sent(self) -> bool:
        return bool(self.token or self.ssh_key)

    @property
    def secret(self) -> dict[str, str]:
        """The secret to look at or to set, for the link on pages; {} if none can help."""
        return {"name": self.name, "origin": self.origin} if self.name else {}


NONE = Credential()


def place_of(source: Git) -> str:
    """Return the source's host as a person writes it, with the port unless it is the scheme's own."""
    host = f"[{source.host}]" if ":" in source.host else source.host
    return host if PORTS.get(source.scheme) == source.port else f"{host}:{source.port}"


def complaint(source: Git, credential: Credential, said: str) -> str:
    """Return sentences for what git said if the host let nobody in, naming the secret; "" if something else failed."""
    scheme = source.scheme.removesuffix("s") if source.scheme.startswith("http") else source.scheme
    found = scheme in _NOT_LET_IN and _NOT_LET_IN[scheme].search(said)
    if not found and scheme == "ssh" and _UNREAD in said:
        found = _REFUSED_BEFORE.search(said, 0, said.rfind(_UNREAD))
    if not found and credential.token:
        found = _NOT_FOUND.search(said)
    if not found:
        return ""
    return f"{what_happened(source, credential, said)} git said: {_line(said, found.start())}"


def basic(token: str) -> str:
    """Return the value of an Authorization header: any name goes with the token at the known hosts."""
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def what_happened(source: Git, credential: Credential, said: str = "") -> str:
    """Return sentences for a host that let nobody in."""
    place, name = place_of(source), credential.name
    if _OTHER_KEY in said and credential.ssh_key:
        return (
            f"{place} did not show the host key that is pinned in the secret {name}, so nothing was sent to it. "
            "Make sure that it is the right host before you pin another key."
        )
    if credential.is_sent:
        what = "token" if credential.token else "ssh key"
        return f"{place} refused the {what} in the secret {name}. Check that it is valid and opens this repository."
    if credential.withheld:
        return f"{place} asks for credentials. {credential.withheld}"
    if not name:
        return f"{place} asks for credentials."
    return f"{place} asks for credentials. {advice(credential)}"


def advice(credential: Credential) -> str:
    """Return what a lead can set, as a sentence."""
    given = "given to Handrail for repositories"
    if credential.origin.startswith("ssh:"):
        given += ": a deploy key, and the host's key"
    return f"A lead can set the secret {credential.name} with the origin {credential.origin}, {given}."


def _line(said: str, at: int) -> str:
    """Return the line of git's words at a position, shortened."""
    return clean(said[said.rfind("\n", 0, at) + 1 :].partition("\n")[0])
