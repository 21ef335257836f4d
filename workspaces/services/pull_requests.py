"""Open a pull request for a workspace: its commits are pushed to a branch, then the code host is asked.

The token is a secret of the team for one origin (scheme, host and port), given to nobody but Handrail: no program of a
workspace ever gets it. The description is written from the workspace's history.
"""

import hashlib
import ipaddress
import json
from urllib.parse import urlsplit

from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid
from workspaces import code_hosts, extensions, lifecycle, operations, secrets
from workspaces.code_hosts import Account, Repository
from workspaces.code_hosts.base import MAX_BODY, MAX_TITLE
from workspaces.models import Command, Operation, PullRequest, Scope, Secret
from workspaces.operations import needs_approval, runner_client
from workspaces.programs import checks
from workspaces.provisioning.git import addresses
from workspaces.secrets import team_credentials
from workspaces.secrets.masking import masked
from workspaces.services import git_export, pull_request_templates

KIND = "pull_request"
TEXTS = ("title", "body")
MAX_LISTED = 20  # commits, files or commands in a description
HOST_SECONDS = 90  # for git and the code host's API to name the default branch
MAX_LINE = 160  # characters of a line in it


def open_one(workspace, wish: dict, *, by: Actor) -> Operation:
    """Push HEAD to `branch` and open a pull request to `base` ("": the default branch). Problem 409, 422.

    An empty title or body is written from the history, before a person is asked. `sha` and `seen` as in `git_export`.
    """
    return submit(workspace, prepare(workspace, wish), by=by)


def prepare(workspace, wish: dict, *, at_once: bool = False) -> dict:
    """Return the checked arguments of `submit`. Problem 409, 422. The repository is asked, so not in a transaction.

    `at_once`: not if its default branch is known from the clone; the operation asks before it pushes anyway.
    An empty base becomes the default branch. `given` in the arguments names the texts that the caller wrote, which
    replace those of a pull request that is open; a form, which shows the ones written here, names them itself.
    """
    repository = repository_of(workspace)
    branch, base = wish["branch"], wish.get("base") or ""
    git_export.check_push(workspace, branch)
    if base:
        git_export.check_push(workspace, base, field="base")
    check_branches(branch, base, [])
    there = _base_branch(workspace, base, at_once)
    check_branches(branch, "", there["defaults"])
    if there["missing"]:
        raise invalid(f"{repository.path} at {repository.site} has no branch {base}. Nothing was pushed.", field="base")
    asked = {"branch": branch, "base": base or next(iter(there["defaults"]), "")} | _texts(workspace, wish)
    asked |= {"draft": True} if wish.get("draft") else {}
    given = wish["given"] if "given" in wish else [name for name in TEXTS if wish.get(name)]
    asked |= {"given": given} if given else {}
    return asked | {name: wish.get(name) or "" for name in ("sha", "seen")}


def submit(workspace, args: dict, *, by: Actor) -> Operation:
    """Submit what `prepare` returned."""
    asked = {name: value for name, value in args.items() if name not in ("sha", "seen")}
    needs_approval.require(workspace, KIND, asked, by=by, always=True)
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit(KIND, workspace=workspace, by=by, args=args | {"remote": workspace.remote})


def again(operation: Operation, *, by: Actor) -> Operation:
    """Ask again for a pull request whose push arrived: no other commit is pushed. Problem 409 for another operation."""
    outcome = operation.outcome or {}
    if operation.kind != KIND or outcome.get("ok") or not outcome.get("pushed"):
        raise conflict("Only a pull request that failed after its push is tried again.")
    return submit(operation.workspace, operation.args | {"sha": outcome["pushed"]["sha"], "seen": ""}, by=by)


def _base_branch(workspace, base: str, at_once: bool) -> dict:
    """Return {defaults, missing} of runner/operations/pull_request.py; without an answer, the operation asks again."""
    if at_once and workspace.default_branch:
        return {"defaults": [workspace.default_branch], "missing": False}
    question = json.dumps({"base": base}).encode()
    try:
        return runner_client.ask("POST", workspace, "pull-request-base", body=question, timeout=HOST_SECONDS)
    except Problem:
        return {"defaults": [], "missing": False}


def check_branches(branch: str, base: str, defaults: list[str]):
    """Problem 422 for a pull request from the branch that it goes into, or from a default branch."""
    for name in filter(None, (base, *defaults)):
        if code_hosts.same_branch(branch, name):
            what = "where it would go" if name == base else "the repository's default branch"
            raise invalid(
                f"A pull request needs a branch of its own; {name} is {what}. Nothing was pushed.", field="branch"
            )


def _texts(workspace, wish: dict) -> dict:
    title, body = wish.get("title") or "", wish.get("body") or ""
    if not title or not body:
        found = describe(workspace, wish["branch"])
        title, body = title or found["title"], body or found["body"]
    if len(title) > MAX_TITLE or len(body) > MAX_BODY:
        raise invalid(f"A title has at most {MAX_TITLE} characters, a description {MAX_BODY:,}.", field="title")
    if "\n" in title or not title.isprintable():
        raise invalid("The title is one line of printable text.", field="title")
    if "\0" in body:
        raise invalid("A description can't contain NUL.", field="body")
    return {"title": title, "body": body}


def repository_of(workspace) -> Repository:
    """Return the repository at a code host that the workspace came from. Problem 409 if there is none."""
    found = code_hosts.repository_of(workspace.remote)
    if found is None:
        raise conflict(f"{workspace.key} did not come from a repository at a code host, so there is nowhere to ask.")
    return found


def account_of(workspace) -> Account:
    """Return `account_for` the repository that the workspace came from. Problem as there, 409 if there is none."""
    return account_for(workspace.team, repository_of(workspace))


def account_for(team, repository: Repository) -> Account:
    """Return the repository, and the token and the addresses of its host. Only runner and queue call this.

    Problem 409 if no token is set, 422 for a host that it is not sent to.
    """
    secret = secret_for(team.pk, repository)
    token = secrets.for_code_host(team, secret.name) if secret else ""
    if not token:
        secret = {"name": repository.token_name, "origin": repository.base}
        raise conflict(without_token(team.pk, repository), secret=secret)
    return Account(repository, token, secret.name, addresses_of(repository), secret.code_host)


def secret_for(team_id, repository: Repository) -> Secret | None:
    """Return the secret whose token goes to exactly this scheme, host and port, None if there is none."""
    return team_credentials.secret_for(team_id, repository.base)


def without_token(team_id, repository: Repository) -> str:
    """Return why no token is sent to a host, and what to do."""
    named = Secret.objects.filter(team=team_id, scope=Scope.CODE_HOST, name=repository.token_name).first()
    if named and secret_for(team_id, repository) is None:
        other = f"is for {named.origin}" if named.origin else "states no origin, and other hosts share its name"
        return (
            f"There is no token for {repository.site}. The secret {named.name} {other}. A lead can set one with the "
            f"origin {repository.base}."
        )
    return (
        f"There is no token for {repository.site}. A lead can set the secret {repository.token_name} with the origin "
        f"{repository.base}, given to Handrail for repositories."
    )


def has_token(workspace) -> bool:
    """Return whether a token for the workspace's code host is set, without reading it."""
    secret = secret_for(workspace.team_id, repository_of(workspace))
    return secret is not None and secrets.state(secret) == secrets.SET


def addresses_of(repository: Repository) -> tuple[str, ...]:
    """Return the checked addresses of the host's API. Problem 422 for a private one, or a public one without TLS."""
    parts = urlsplit(code_hosts.api_of(repository))
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    pinned = addresses.check_git(f"{parts.scheme}://{parts.hostname}:{port}/").pinned
    if parts.scheme == "http" and not all(ipaddress.ip_address(address).is_loopback for address in pinned):
        raise invalid(f"{repository.site} is reached without TLS, so the token is not sent there.")
    return pinned


def newest_asked(workspace) -> Operation | None:
    """Return the operation of the pull request that was asked for last, however it ended; None without one."""
    return Operation.objects.filter(workspace=workspace, kind=KIND).order_by("-created_at").first()


def of(workspace):
    return PullRequest.objects.filter(workspace=workspace).order_by("-opened_at")


# The description ------------------------------------------------------------------------------------------------------


def describe(workspace, branch: str) -> dict:
    """Return {title, body} in Markdown: commits, files, commands with their ends, checks, and what people allowed."""
    told = git_export.would_open(workspace, branch)
    sent = next(iter(told.get("sends") or ()), {})
    commits, files = sent.get("commits") or [], sent.get("files") or {"count": 0, "first": []}
    title = _printable(commits[0]["subject"]) if commits else f"Changes of {workspace.key}"
    parts = [
        workspace.description.strip(),
        _section("Commits", [f"{as_code(each['sha'][:10])} {_line(each['subject'])}" for each in commits]),
        _section(_files_heading(files), [_file(row) for row in files["first"]], files["count"]),
        _section(
            "Checks", [f"{_line(check.name)}: {_state(check)}" for check in checks.checks_of(workspace)[workspace.pk]]
        ),
        _section("Commands", [_command(each) for each in _commands(workspace)]),
        *(_section(heading, lines) for heading, lines in extensions.ports.pull_request_sections(workspace)),
        f"Made in the workspace {as_code(workspace.key)}.",
    ]
    body = "\n\n".join(part for part in parts if part)
    body = pull_request_templates.filled(told.get("template", ""), body)
    found = {"title": masked(title, workspace)[:MAX_TITLE], "body": masked(body, workspace)[:MAX_BODY]}
    return found | {"written": written(found)}


def written(texts: dict) -> str:
    """Return what tells later whether somebody changed the texts that were written here: a digest of each."""
    return " ".join(_digest(texts[name]) for name in TEXTS)


def changed(texts: dict, from_written: str) -> list[str]:
    """Return the names of the texts that are neither those of `written` nor empty; none without it."""
    digests = from_written.split()
    found = [name for name, digest in zip(TEXTS, digests, strict=False) if _digest(texts[name]) != digest]
    return [name for name in found if texts[name]]


def _digest(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def _state(check) -> str:
    return str(check.state).replace("_", " ")


def _files_heading(files: dict) -> str:
    return f"Files ({files['count']:,}, +{files.get('additions', 0):,} −{files.get('deletions', 0):,})"


def _file(row: list) -> str:
    path, added, removed = row
    return f"{as_code(path)} " + ("binary" if added is None else f"+{added:,} −{removed:,}")


def _commands(workspace) -> list[Command]:
    """Return the last run of each command, the newest first."""
    found = {}
    for command in Command.objects.filter(workspace=workspace).order_by("-operation__created_at")[:200]:
        found.setdefault(command.shown, command)
    return list(found.values())[:MAX_LISTED]


def _command(command: Command) -> str:
    ended = f"exit status {command.exit_status}"
    if command.exit_status is None:
        ended = "still runs" if command.ended_at is None else "did not end by itself"
    return f"{as_code(command.shown)}: {ended}"


def _section(heading: str, lines: list[str], count: int = 0) -> str:
    """Return a heading and a list in Markdown; "" without lines."""
    if not lines:
        return ""
    listed = [f"- {line}" for line in lines[:MAX_LISTED]]
    if (more := max(count, len(lines)) - len(listed)) > 0:
        listed.append(f"- and {more:,} more")
    return f"### {heading}\n\n" + "\n".join(listed)


def _line(text: str) -> str:
    """Return a text as one line in which no character is Markdown, a mention or hidden."""
    line = _printable(text)
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|~@" else each for each in line)


def as_code(text: str) -> str:
    """Return a text as code in Markdown, on one line and without hidden characters."""
    return f"`{_printable(text).replace('`', chr(39)) or ' '}`"


def _printable(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:MAX_LINE]
