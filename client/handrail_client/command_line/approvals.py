"""`handrail ask`, `handrail gate`, `handrail approvals`, `handrail me`."""

import os
import shlex
import subprocess
import sys

from handrail_client import json_text
from handrail_client.actions import GRACE, Action
from handrail_client.command_line.printing import as_json, plain, rows
from handrail_client.errors import HandrailError

COLUMNS = ["id", "status", "tier", "agent", "title"]


def add_to(commands):
    made = commands.add_parser("me", help="say whom the token speaks for")
    made.set_defaults(run=lambda desk, asked: as_json(desk.me()))

    made = commands.add_parser("gate", help="ask whether a command may run, wait, and run it here once it may")
    _question(made)
    made.add_argument("command", nargs="+", help="the command and its arguments, after --")
    made.set_defaults(run=gate)

    made = commands.add_parser("ask", help="ask about any call, wait, use the approval, print the approved arguments")
    _question(made)
    made.add_argument("tool")
    made.add_argument("arguments", help="a JSON object")
    made.set_defaults(run=ask)

    made = commands.add_parser("approvals", help="list actions; show, approve, deny or withdraw one")
    made.add_argument("verb", nargs="?", default="list", choices=["list", "show", "approve", "deny", "withdraw"])
    made.add_argument("id", nargs="?", help="of the action")
    made.add_argument("--status", default="", help="list only those, such as pending")
    made.add_argument("--comment", default="", help="message to the agent")
    made.add_argument("--digest", help="decide without being asked again, on exactly this version of the call")
    made.set_defaults(run=approvals)


def _question(made):
    made.add_argument("--reason", default="", help="shown on the card")
    made.add_argument("--key", help="find the same question again after a restart, in the place of a new one")
    made.add_argument("--session", help="the agent's session that this belongs to")
    made.add_argument("--grace", type=float, default=GRACE, help="seconds to look for the desk before giving up")


def _asked(desk, asked, tool: str, arguments: dict, **more) -> Action:
    desk.grace = asked.grace
    waiting = desk.ask(tool, arguments, key=asked.key, reasoning=asked.reason or None, session=asked.session, **more)
    if waiting.status == "pending":
        print(f"handrail: {waiting.name} needs approval: {waiting.url}", file=sys.stderr)
    return desk.use(desk.wait(waiting, on_question=_answer if sys.stdin.isatty() else None))


def _answer(question: dict) -> str | None:
    print(f"{plain(question['by'])} asks: {plain(question['text'])}", file=sys.stderr)
    return input("Answer (empty: none): ") or None


def gate(desk, asked) -> int:
    line = asked.command[0] if len(asked.command) == 1 else shlex.join(asked.command)
    used = _asked(desk, asked, "Bash", {"command": line}, cwd=os.getcwd())
    try:
        status = subprocess.run(["/bin/sh", "-c", used.arguments["command"]], check=False).returncode
    except BaseException as error:
        desk.report_quietly(used, False, repr(error))
        raise
    desk.report_quietly(used, status == 0, f"exit status {status}")
    return status if status >= 0 else 128 - status


def ask(desk, asked):
    try:
        arguments = json_text.loads(asked.arguments)
    except ValueError as error:
        raise HandrailError(f"The arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise HandrailError("The arguments must be a JSON object.")
    used = _asked(desk, asked, asked.tool, arguments)
    as_json(used.told if asked.json else {"action": used.id, "arguments": used.arguments})


def approvals(desk, asked) -> int | None:
    if asked.verb == "list":
        rows(desk.recent(status=asked.status), COLUMNS, as_is=asked.json)
        return None
    if not asked.id:
        raise HandrailError("Name the action by its id.")
    action = desk.get(asked.id)
    if asked.verb == "withdraw":
        action = desk.cancel(action)
    elif asked.verb in ("approve", "deny"):
        if not _is_sure(action, asked):
            return 1
        action = desk.decide(action, asked.verb, comment=asked.comment)
    as_json(action.told) if asked.json else _show(action)
    return None


def _is_sure(action: Action, asked) -> bool:
    """Whether the person decides on this version of the call; without a terminal its digest has to be named."""
    if asked.digest:
        if asked.digest != action.digest:
            raise HandrailError("The call was changed since: its digest is another one.")
        return True
    if not sys.stdin.isatty():
        raise HandrailError("Name the digest of the call with --digest, as `handrail approvals show` prints it.")
    _show(action)
    return input(f"{asked.verb.capitalize()} {action.name}? [y/N] ").strip().lower() in ("y", "yes")


def _show(action: Action):
    told = action.told
    print(f"{action.name}  {action.status}  {plain(told.get('tier', ''))}  {plain(told.get('agent', ''))}")
    print(f"{plain(action.tool)} {plain(json_text.dumps(action.arguments, ensure_ascii=False))}")
    for name in ("cwd", "workspace", "reasoning"):
        if told.get(name):
            print(f"{name}: {plain(told[name])}")
    for reason in told.get("reasons") or []:
        print(f"because: {plain(reason)}")
    print(f"digest: {action.digest}\n{action.url}")
