"""`handrail sessions`."""

from handrail_client.command_line.printing import as_json, copy_out, plain, rows
from handrail_client.errors import HandrailError

COLUMNS = ["id", "agent", "dialect", "last_at", "title"]


def add_to(commands):
    made = commands.add_parser("sessions", help="list sessions of agents; show or export the messages of one")
    made.add_argument("verb", nargs="?", default="list", choices=["list", "show", "export"])
    made.add_argument("id", nargs="?")
    made.add_argument("--agent", default="")
    made.add_argument("--workspace", default="", help="its key")
    made.add_argument("--form", choices=["jsonl", "md"], default="jsonl")
    made.set_defaults(run=sessions)


def sessions(desk, asked):
    if asked.verb == "list":
        found = desk.sessions.all(agent=asked.agent, workspace=asked.workspace)
        return rows(found, COLUMNS, as_is=asked.json)
    if not asked.id:
        raise HandrailError("Name the session by its id.")
    if asked.verb == "export":
        return copy_out(desk.sessions.export(asked.id, asked.form))
    for message in desk.sessions.messages(asked.id):
        as_json(message) if asked.json else print(f"{message['role']} {message['kind']}: {plain(message['text'])}")
    return None
