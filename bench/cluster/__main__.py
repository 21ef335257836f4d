"""`python -m bench.cluster up|down`: three hosts, two of them with a web behind nginx, a PostgreSQL and a bucket.

    python -m bench.cluster up [--hosts N] [--loopback]    start them, print the addresses and a lead's token
    python -m bench.cluster down                           end exactly what `up` has started

As root each host is in a network namespace of its own; else all are on loopback. Nothing is simulated: `manage.py host
add`, `manage.py join` and `manage.py up` are run as an operator runs them.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.cluster import hosts

DEFAULT = Path(tempfile.gettempdir()) / "handrail-cluster"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("--folder", type=Path, default=DEFAULT, help=f"for all data; {DEFAULT}")
    parser.add_argument("--hosts", type=int, default=3, choices=range(2, len(hosts.NAMES) + 1))
    parser.add_argument("--loopback", action="store_true", help="do not use network namespaces")
    asked = parser.parse_args()
    return up(asked) if asked.verb == "up" else down(asked.folder)


def up(asked) -> int:
    state = _state_of(asked.folder)
    if asked.folder.exists() or state.exists():
        print(f"{asked.folder} is there already: `python -m bench.cluster down` ends it", file=sys.stderr)
        return 1
    cluster = hosts.Cluster(asked.folder, hosts=asked.hosts, kind="loopback" if asked.loopback else "")
    try:
        cluster.up(lambda words: print(words, file=sys.stderr, flush=True))
        hosts.save(cluster.state(), state)
    except BaseException:
        cluster.down()
        raise
    for host in cluster.hosts.values():
        at = f"http://{host.place.at}" if host.has_web else "no web"
        print(f"host-{host.name}  {host.parts:<16}  {at}  HANDRAIL_HOME={host.home}")
    print(f"desk    {cluster.url}")
    print(f"token   {cluster.token('rita')}")
    return 0


def down(folder: Path) -> int:
    state = _state_of(folder)
    if not state.exists():
        print(f"Nothing runs in {folder}.", file=sys.stderr)
        return 1
    hosts.end(json.loads(state.read_text()))
    state.unlink()
    return 0


def _state_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


if __name__ == "__main__":
    sys.exit(main())
