"""The name and address under which programs of a workspace commit, where nobody has set others.

They are settings of the system, which git reads first: those of the user and the repository, and GIT_AUTHOR_NAME and
the like in an environment, all count more.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from django.conf import settings

FILE = "handrail/gitconfig"  # below /etc
IGNORE_FILE = "handrail/gitignore"  # below /etc
VARIABLES = {"GIT_CONFIG_SYSTEM": f"/etc/{FILE}"}
# The manifest that a driver shows in the tree is not part of it (`workspaces/store/mount_point.py`).
IGNORED = b"/.handrail/manifest.json\n"
DROPPED = re.compile(r'[\x00-\x1f\x7f<>"\\]')  # what git leaves out of a name, or would have to be quoted here
NO_HOST = "handrail.invalid"  # RFC 2606: nobody can receive mail there


def files(workspace, sections: Sequence[str] = ()) -> dict[str, bytes]:
    """Return {path below /etc: content} of git's settings of the system: ours, these lines, then the root's own."""
    name, email = identity(workspace)
    lines = ["[user]", f'\tname = "{name}"', f'\temail = "{email}"']
    lines += ["[core]", f"\texcludesFile = /etc/{IGNORE_FILE}", *sections, "[include]", "\tpath = /etc/gitconfig"]
    return {FILE: ("\n".join(lines) + "\n").encode(), IGNORE_FILE: IGNORED}


def identity(workspace) -> tuple[str, str]:
    """Return the name and address under which programs of the workspace commit by default."""
    name = _name(workspace)
    local = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
    return f"{name} (Handrail)", f"{local[:60]}@{_host()}"


def allowed_signers(public_key: str) -> str:
    """Return the line of an allowed_signers file for what is signed with a team's key."""
    return f'*@{_host()} namespaces="git" {public_key}'


def _name(workspace) -> str:
    """Return the name of the agent that programs of the workspace act as; without one, the workspace's."""
    agent = workspace.created_by_agent or workspace.bound_agents.order_by("created_at").first()
    return DROPPED.sub("", agent.name if agent else workspace.key).strip() or "agent"


def _host() -> str:
    """Return a name below the desk's that has no mail, or one that cannot have any."""
    host = urlsplit(settings.HANDRAIL_PUBLIC_URL).hostname or ""
    is_name = re.fullmatch(r"[a-z0-9.-]+\.[a-z][a-z0-9-]*", host) is not None
    return f"noreply.{host}" if is_name else NO_HOST
