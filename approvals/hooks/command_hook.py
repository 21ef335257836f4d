"""What Claude Code runs as its hook in a connected folder: asks Handrail, prints its answer, and never opens.

Standard library only, Python 3.9 and later, started as `python -I command_hook.py CONNECTION`. Whatever goes wrong it
exits with 2, which Claude Code takes as a no; any other failure would let the tool run.
"""

import json
import sys
import urllib.error
import urllib.request

BLOCK = 2


def main() -> int:
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            connection = json.load(file)
        call = sys.stdin.buffer.read()
        event = json.loads(call)["hook_event_name"]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        return refuse(f"Handrail's hook cannot read its connection or the call ({error}), so nothing is allowed.")
    request = urllib.request.Request(
        connection["address"] + "/hooks/claude-code",
        data=call,
        headers={"Authorization": f"Bearer {connection['token']}", "Content-Type": "application/json"},
    )
    # No proxy of the environment may come between, and no redirect is followed.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
    try:
        with opener.open(request, timeout=connection["timeout_s"]) as answer:
            body = answer.read()
        told = json.loads(body)
    except (OSError, ValueError) as error:
        return refuse(
            f"Handrail does not answer at {connection['address']} ({error}), so nothing is allowed. "
            "A person can start it with `make up`."
        )
    if not is_verdict(event, told):
        return refuse("Handrail's answer makes no sense, so nothing is allowed.")
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    return 0


def is_verdict(event, told) -> bool:
    """Before a tool only a full decision counts; after it any object will do."""
    if not isinstance(told, dict) or not told:
        return False
    if event != "PreToolUse":
        return True
    output = told.get("hookSpecificOutput")
    return (
        isinstance(output, dict)
        and output.get("hookEventName") == "PreToolUse"
        and output.get("permissionDecision") in ("allow", "deny", "ask")
    )


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


def refuse(words: str) -> int:
    print(words, file=sys.stderr)
    return BLOCK


if __name__ == "__main__":
    try:
        status = main()
    except BaseException as error:  # whatever it is, it must not let the tool run
        status = refuse(f"Handrail's hook failed ({type(error).__name__}), so nothing is allowed.")
    sys.exit(status)
