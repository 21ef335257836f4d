"""`python -m bench.other_web`: what a web costs that is not the one of a workspace's host.

Two hosts share a database; each question is asked in turn at the web of the workspace's host and at the other one.
Prints p50 and p99 of both in milliseconds and their ratios; the goal is 1.3.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import quantiles

from tests.support.product import Product
from tests.support.two_hosts import Hosts, two_hosts
from tests.support.visitor import Visitor

GOAL = 1.3


def main():
    parser = argparse.ArgumentParser(prog="python -m bench.other_web", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="how often each question is asked at each web")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="other-web-") as folder, two_hosts(Path(folder)) as hosts:
        measure(hosts, asked.rounds)


def questions(hosts: Hosts) -> dict[str, str]:
    """Return {what is asked: its path}."""
    desk = hosts.through_own
    command = desk.finished(desk.post("/workspaces/far/commands", {"command": "seq 1000"}).json["id"])["id"]
    desk.call("PUT", "/workspaces/far/files/large.bin", bytes(4 << 20), None)
    newest = max(snapshot["number"] for snapshot in desk.get("/workspaces/far/snapshots").json["snapshots"])
    api, page = "/api/v1/workspaces/far", "/w/main/far"
    return {
        "workspace (API)": api,
        "folder, live (API)": f"{api}/files/",
        "file, live (API)": f"{api}/files/hello.txt",
        "file of 4 MiB, live (API)": f"{api}/files/large.bin",
        "file of a snapshot (API)": f"{api}/files/hello.txt?snapshot={newest}",
        "changes since a snapshot (API)": f"{api}/diff?from=1&to=live",
        "output (API)": f"/api/v1/commands/{command}/output",
        "page of its snapshots": f"{page}/snapshots/",
        "page of its files": f"{page}/files/",
        "page of its changes": f"{page}/changes/",
        "page of a command": f"{page}/commands/{command}/",
    }


def measure(hosts: Hosts, rounds: int):
    people = {product: Visitor.named(product, "lia", "lead") for product in (hosts.own, hosts.other)}
    print(f"{'':34}{'own p50':>9}{'p99':>8}{'other p50':>11}{'p99':>8}{'ratio p50':>11}{'p99':>7}")
    for what, path in questions(hosts).items():
        taken = {hosts.own: [], hosts.other: []}
        for number in range(rounds + 5):
            for product in taken if number % 2 else reversed(taken):
                seconds = _asked(product, path, hosts.token, people[product])
                if number >= 5:  # the first ones open connections and fill caches
                    taken[product].append(seconds * 1000)
        (own50, own99), (other50, other99) = (_p50_p99(taken[product]) for product in (hosts.own, hosts.other))
        ratios = f"{other50 / own50:11.2f}{other99 / own99:7.2f}"
        print(f"{what:34}{own50:9.1f}{own99:8.1f}{other50:11.1f}{other99:8.1f}{ratios}", flush=True)


def _asked(product: Product, path: str, token: str, person: Visitor) -> float:
    begun = time.perf_counter()
    if path.startswith("/w/"):
        person.get(path)
        assert person.path == path, (path, person.path)
    else:
        answer = product.get(path, token)
        assert answer.status == 200, (path, answer.status, answer.body[:300])
    return time.perf_counter() - begun


def _p50_p99(values: list[float]) -> tuple[float, float]:
    cuts = quantiles(values, n=100)
    return cuts[49], cuts[98]


if __name__ == "__main__":
    main()
