"""Handrail's own verbs: what an agent may ask to have done to a workspace, which a person approves each time.

No rule of a policy can allow them. `OWN_VERBS` says all that is known of each; approvals.actions.ask_first turns a
request into an action, approvals.broker.workspace_action carries that out, and approvals.evidence says on its card what
it would do.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from asgiref.sync import async_to_sync

from workspaces import lifecycle
from workspaces.changes import file_writes, history
from workspaces.host import quarantine
from workspaces.models import Command, Operation, Terminal
from workspaces.programs import terminals
from workspaces.services import commands, git_export, idle, integrity, network, pull_requests, taking_back

CREDENTIAL, REQUEST = "network.credential", "network.request"
HELD_OPEN = (CREDENTIAL, REQUEST)  # asked for by the egress proxy, which does it once it is approved
HOW_LONG = {"once": " once", "environment": " and its environment"}


@dataclass
class OwnVerb:
    """What is known of one verb.

    `title` is formatted with the workspace's key and the arguments. `perform(workspace, arguments, by)` does it, and
    returns an Operation to wait for, a Terminal that it opened, or None. `can_undo` is False where data leaves the
    workspace, input goes to a shell, or a program ends. `effect` is the evidence on its card. A verb without one has
    `gather(place, arguments, title)`, which `gathers` registers; `is_quick` says that it asks no runner.
    """

    title: str
    perform: Callable[..., Operation | Terminal | None] | None  # None: what asks does it once it is approved
    can_undo: bool = True
    effect: str = ""
    pushes: bool = False
    gather: Callable | None = None
    is_quick: bool = True


def _remove(workspace, wish, by):
    lifecycle.take_safety_snapshot(workspace, by=by, label="before a file was deleted")
    path = wish["path"].encode()
    file_writes.delete_file(workspace, path, by=by)
    lifecycle.record(workspace, by, "file.deleted", history.path_fields("path", path))


def _type(workspace, wish, by):
    rows = Terminal.objects.select_related("workspace__environment", "workspace__runner")
    terminal = rows.get(pk=wish["terminal"], workspace=workspace)
    terminals.check_typing(terminal, wish["text"].encode(), by=by)
    async_to_sync(terminals.type_into)(terminal, wish["text"].encode())
    lifecycle.record(workspace, by, "terminal.typed", {"bytes": len(wish["text"].encode())}, subject=terminal)


def _unpin(workspace, wish, by):
    lifecycle.pin(history.find_snapshot(workspace, wish["snapshot"]), False, by=by)


def _cancel(workspace, wish, by):
    rows = Command.objects.select_related("operation", "workspace__environment")
    commands.cancel_command(rows.get(pk=wish["id"], workspace=workspace), by=by)


def _stop_operation(workspace, wish, by):
    lifecycle.cancel_operation(workspace, Operation.objects.get(pk=wish["operation"], workspace=workspace), by=by)


def _keep_awake(workspace, wish, by):
    idle.keep_awake(workspace, wish["until"] and datetime.fromisoformat(wish["until"]), by=by)


OWN_VERBS = {
    "Handrail.Delete": OwnVerb(
        "Move {key} to the trash",
        lambda workspace, wish, by: lifecycle.trash(workspace, by=by),
    ),
    "Handrail.Reset": OwnVerb(
        "Reset {key} to the snapshot after setup",
        lambda workspace, wish, by: lifecycle.reset(workspace, by=by),
    ),
    "Handrail.Restore": OwnVerb(
        "Restore {key} to snapshot {snapshot}",
        lambda workspace, wish, by: lifecycle.restore(workspace, wish["snapshot"], by=by, paths=wish.get("paths")),
    ),
    "Handrail.Push": OwnVerb(
        "Push {key} to branch {branch} of {remote}",
        lambda workspace, wish, by: git_export.push(workspace, **wish, by=by),
        can_undo=False,
        pushes=True,
    ),
    "Handrail.PullRequest": OwnVerb(
        "Push {key} to branch {branch} of {remote} and open the pull request {title!r}",
        lambda workspace, wish, by: pull_requests.open_one(workspace, wish, by=by),
        can_undo=False,
        pushes=True,
    ),
    "Handrail.TakeBack": OwnVerb(
        "Take back {action}: it {title}",
        lambda workspace, wish, by: taking_back.submit(workspace, wish, by=by),
        can_undo=False,
    ),
    "Handrail.Allow": OwnVerb(
        "Allow {host} for {key}{how_long}",
        lambda workspace, wish, by: network.submit_allow(workspace, wish, by=by),
        can_undo=False,
    ),
    "Handrail.Remove": OwnVerb("Delete {path} in {key}", _remove),
    "Handrail.Terminal": OwnVerb(
        "Open a terminal in {key}: {argv}",
        lambda workspace, wish, by: commands.open_terminal(workspace, wish, by=by),
        can_undo=False,
        effect="Runs as you in your folder. Input from the agent needs approval each time.",
    ),
    "Handrail.Type": OwnVerb(
        "Type {text!r} into the terminal {name} of {key}",
        _type,
        can_undo=False,
        effect="Not checked by the policy: the shell runs whatever this says.",
    ),
    "Handrail.Pause": OwnVerb(
        "Pause {key}",
        lambda workspace, wish, by: lifecycle.pause(workspace, by=by, **wish),
        effect="Its terminals and commands end.",
    ),
    "Handrail.Resume": OwnVerb(
        "Resume {key}",
        lambda workspace, wish, by: lifecycle.resume(workspace, by=by),
        effect="Its services start.",
    ),
    "Handrail.Stop": OwnVerb(
        "Stop {key}",
        lambda workspace, wish, by: lifecycle.stop(workspace, by=by),
        effect="Its terminals and commands end.",
    ),
    "Handrail.Retry": OwnVerb(
        "Retry creating {key}",
        lambda workspace, wish, by: lifecycle.retry(workspace, by=by),
        effect="It is created again, from its environment.",
    ),
    "Handrail.Unpin": OwnVerb(
        "Unpin snapshot {snapshot} of {key}", _unpin, effect="Retention may then delete the snapshot."
    ),
    "Handrail.Cancel": OwnVerb(
        "Cancel {command} in {key}",
        _cancel,
        can_undo=False,
        effect="The command is stopped, even if it is half done.",
    ),
    "Handrail.StopOperation": OwnVerb(
        "Stop the {kind} operation in {key}",
        _stop_operation,
        can_undo=False,
        effect="It is stopped, and its partial result is discarded.",
    ),
    "Handrail.Awake": OwnVerb(
        "{keep} {key} awake{until}", _keep_awake, effect="It won't pause until then, even when idle."
    ),
    "Handrail.Keep": OwnVerb(
        "Accept the files of {key} as they are",
        lambda workspace, wish, by: integrity.keep_found(workspace, by=by),
        effect="Takes a snapshot of the files and clears the warning.",
    ),
    "Handrail.PutBack": OwnVerb(
        "Put {path} back into {key}, where a held program made it",
        lambda workspace, wish, by: quarantine.put_back(workspace, wish["id"]),
        effect="It takes effect by itself, for you too: in git, your editor, your shell or your CI.",
    ),
    CREDENTIAL: OwnVerb(
        "Use the credential {credential} beyond its leash: {method} {host}{path}",
        None,
        can_undo=False,
        effect="The request is held open. An approval sends it with the credential, once.",
    ),
    REQUEST: OwnVerb(
        "Send {method} requests to {host} in this run of {key}; the first is for {path}",
        None,
        can_undo=False,
        effect="The request is held open. An answer holds for this host and method until the run ends.",
    ),
}
PUSHES = [tool for tool, verb in OWN_VERBS.items() if verb.pushes]


def tool_of(verb: str) -> str:
    """Return the tool of a verb as workspaces/operations/needs_approval.py names it, such as `stop_operation`."""
    return "Handrail." + verb.title().replace("_", "")


def title_of(tool: str, arguments: dict, workspace) -> str:
    known = {"snapshot": "", "branch": "", "host": "", "remote": workspace.remote}
    keep, until = ("Keep", f" until {arguments['until']}") if arguments.get("until") else ("Stop keeping", "")
    known |= arguments | {"how_long": HOW_LONG.get(arguments.get("scope"), ""), "keep": keep, "until": until}
    known["argv"] = shlex.join(arguments.get("argv") or [])
    return OWN_VERBS[tool].title.format(key=workspace.key, **known)


def gathers(tool: str, *, is_quick: bool = False):
    """Register the decorated `gather(place, arguments, title) -> Finding` as the evidence of a verb."""

    def register(gather):
        OWN_VERBS[tool].gather, OWN_VERBS[tool].is_quick = gather, is_quick
        return gather

    return register
