"""Say in plain words why a source's host did not give or take commits."""

import re
import tempfile
from functools import wraps
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from workspaces.provisioning.git import output
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.running import CloneFailed, contacted, environment_for, git_in, pin

_REDIRECTED = re.compile(r"returned error: 30[1278]\b")
_NOT_THERE = re.compile(r"repository '[^'\n]*' not found|returned error: (?:404|410)\b")
_NO_REPOSITORY = re.compile(r"not valid: is this a git repository\?|git-http-push failed")
_SERVED = re.compile(r"Recv header: content-type: application/x-git-", re.IGNORECASE)
_LOCATION = re.compile(r"Recv header: location: (\S+)", re.IGNORECASE)


def explains(function):
    """Decorate a function of a source that contacts its host: its errors say in plain words what happened."""

    @wraps(function)
    def contact(source: Git, *args, **how):
        try:
            return function(source, *args, **how)
        except CloneFailed as error:
            raise explained(error, source) from None

    return contact


def explained(error: CloneFailed, source: Git) -> CloneFailed:
    """Return the error with a plainer sentence where git's words have one, and with what the host said."""
    told = str(error) if error.code == "token" else _explanation(error.said, source)
    remote = output.remote_lines(error.said)
    if not (told or remote) or "remote" in error.more:
        return error
    heard = f" It said: {output.joined(remote)}" if remote else ""
    error.args = ((told or str(error)) + heard,)
    error.more |= {"remote": remote} if remote else {}
    return error


def _explanation(words: str, source: Git) -> str:
    """Return a sentence, "" if git's own words are the best there are."""
    if not source.scheme.startswith("http"):
        return ""
    if _REDIRECTED.search(words):
        where = _redirected_to(source)
        leads = f" to {where}" if where else ""
        return f"{source.address} redirects{leads}. Redirects are not followed; use the new address."
    if _NOT_THERE.search(words):
        return f"There is no repository at {source.address}, or it is private."
    return not_a_repository(source) if _NO_REPOSITORY.search(words) else ""


def not_a_repository(source: Git) -> str:
    return f"{source.address} answers, but not as a git repository; it may be a web page."


def is_served(source: Git, env: dict[str, str]) -> bool:
    """Return whether an HTTP host answers for this address as git servers do, and not with a web page."""
    return not source.scheme.startswith("http") or bool(_SERVED.search(_headers(source, env)))


def _redirected_to(source: Git) -> str:
    """Return the address of the repository to which the host redirects, "" if it names none that can be shown."""
    found = _LOCATION.search(_headers(source, environment_for(source)))
    parts = urlsplit(urljoin(f"{source.address}/info/refs", found[1])) if found else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.removesuffix('/info/refs')}"
    return output.clean(shown) if shown.isprintable() else ""


def _headers(source: Git, env: dict[str, str]) -> str:
    """Return git's trace of the headers with which an HTTP host answers for the repository."""
    with tempfile.TemporaryDirectory() as folder, git_in(Path(folder)) as git:
        trace = Path(folder) / "trace"
        traced = env | {"GIT_TRACE_CURL": str(trace), "GIT_TRACE_CURL_NO_DATA": "1"}
        git(*pin(source), "ls-remote", "--quiet", "--", contacted(source), "HEAD", env=traced, check=False)
        return trace.read_text(errors="replace") if trace.exists() else ""
