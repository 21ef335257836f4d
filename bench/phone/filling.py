"""A desk with a hundred cards, and a workspace in which 317 files were deleted with their folder."""

from dataclasses import dataclass
from pathlib import Path

from tests.support import busy_desk
from tests.support.product import Product

GONE = {f"old/part-{number % 7}/file{number}.py": f"x = {number}\n" for number in range(317)}
REFUNDS = 40  # on top of the desk's own


@dataclass
class FullDesk:
    """Paths of the pages by name, and the ids of all actions that wait."""

    pages: dict[str, str]
    waiting: list[str]


def fill(product: Product, sources: Path) -> FullDesk:
    """Fill a running product: tests/support/busy_desk.py, forty refunds that are alike, and the deleted folder."""
    busy_desk.FILES["web-shop"].update(GONE)
    desk = busy_desk.fill(product, sources)
    person = product.person_token("otto", "admin")
    place = "/api/v1/workspaces/web-shop"
    made = product.post(f"{place}/commands", person, {"command": "rm -rf old"})
    ended = product.settled(f"/api/v1/commands/{made.json['id']}", person)
    assert ended["exit_status"] == 0, ended
    waiting = [action["id"] for action in desk.waiting]
    for number in range(REFUNDS):
        arguments = {"charge": f"ch_9{number:03}", "amount": 1000 + 37 * number, "currency": "eur"}
        ask = {"tool": "mcp__stripe__create_refund", "arguments": arguments, "workspace": "payments"}
        answer = product.post("/api/v1/actions", desk.tokens["ben-codex"], ask | {"session": "ben-codex-1"})
        assert answer.status == 201, answer.text
        waiting.append(answer.json["id"])
    agent = product.shell("from dashboard.models import Agent; print(Agent.objects.get(name='ben-codex').pk)").strip()
    pages = {
        "Desk": "/",
        "Approvals": "/waiting/",
        "Card": f"/actions/{waiting[0]}/",
        "Changes": "/w/main/web-shop/changes/",
        "Agent": f"/agents/{agent}/",
    }
    return FullDesk(pages, waiting)
