"""Measure the egress proxy beside tinyproxy and mitmproxy.

    .venv/bin/python -m bench.egress --tinyproxy /usr/bin/tinyproxy --mitmdump FOLDER/bin/mitmdump

Each is measured in turns in the same run, so that a load of the machine meets all. Throughput is for each second of the
proxy's own processor: that is what it carries on one core, whatever else the machine does.
"""

import argparse
import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.egress import measures, origin, ours
from bench.egress.measures import Way

BEARER = f"Authorization: Bearer {ours.STAND_IN}\r\n"


def main():
    read = argparse.ArgumentParser(prog="bench.egress", description=__doc__.splitlines()[0])
    read.add_argument("--tinyproxy", default="tinyproxy")
    read.add_argument("--mitmdump", default="mitmdump")
    read.add_argument("--megabytes", type=int, default=64, help="of each download")
    read.add_argument("--rounds", type=int, default=3)
    read.add_argument("serve", nargs="*", help=argparse.SUPPRESS)
    asked = read.parse_args()
    if asked.serve:
        return asyncio.run(_serve(*asked.serve))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        _compare(asked, Path(folder), ends)


async def _serve(what: str, folder: str, *ports: str):
    """Be the origin or the proxy, in a process of its own."""
    folder, numbers = Path(folder), list(map(int, ports))
    if what == "origin":
        return await origin.serve(folder / "origin.pem", numbers[0])
    leashes = ours.OneCredential(folder, folder / "trusted.pem", numbers[0]) if what == "leashed" else None
    await ours.serve(numbers[1:], leashes)


def _compare(asked, folder: Path, ends: contextlib.ExitStack):
    _, trusted = origin.make_certificate(folder)
    at, plain, plain_too, opened, opened_too, tiny, mitm = (_free_port() for _ in range(7))

    def started(*command, port) -> int:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ends.callback(process.wait)
        ends.callback(process.terminate)
        _until_open(port)
        return process.pid

    def own(what, *ports, port):
        return started(sys.executable, "-m", "bench.egress", what, str(folder), *map(str, ports), port=port)

    own("origin", at, port=at)
    ways = [
        Way("Handrail, CONNECT", own("proxy", at, plain, plain_too, port=plain_too), [plain, plain_too], trusted),
        Way("tinyproxy, CONNECT", started(*_tinyproxy(asked.tinyproxy, folder, tiny, at), port=tiny), [tiny], trusted),
    ]
    process = own("leashed", at, opened, opened_too, port=opened_too)
    ways.append(Way("Handrail, leash", process, [opened, opened_too], folder / "inside.pem", BEARER))
    process = started(*_mitmproxy(asked.mitmdump, folder, mitm, trusted), port=mitm)
    ways.append(Way("mitmproxy, header", process, [mitm], folder / "mitm" / "mitmproxy-ca-cert.pem", BEARER))
    _report(asked, at, ways)


def _tinyproxy(program: str, folder: Path, port: int, at: int) -> list[str]:
    config, hosts = folder / "tinyproxy.conf", folder / "hosts"
    hosts.write_text(f"127.0.0.1 {origin.NAME}\n")
    config.write_text(f"Port {port}\nListen 127.0.0.1\nMaxClients 600\nTimeout 600\nConnectPort {at}\nLogLevel Error\n")
    # It has no table of names of its own, so it runs in a mount namespace with another /etc/hosts.
    inside = f"mount --bind {hosts} /etc/hosts && exec {program} -d -c {config}"
    return ["unshare", "--mount", "sh", "-c", inside]


def _mitmproxy(program: str, folder: Path, port: int, trusted: Path) -> list[str]:
    """As little as does the same: the header is put in, and bodies stream unsearched."""
    put_in = f"/~q/Authorization/Bearer {ours.REAL}"
    options = [f"confdir={folder / 'mitm'}", f"ssl_verify_upstream_trusted_ca={trusted}", "stream_large_bodies=100k"]
    words = [program, "-q", "--listen-host", "127.0.0.1", "-p", str(port), "--modify-headers", put_in]
    for option in (*options, "flow_detail=0", "http2=false"):
        words += ["--set", option]
    inside = f"mount --bind {folder / 'hosts'} /etc/hosts && exec " + " ".join(f"'{word}'" for word in words)
    return ["unshare", "--mount", "sh", "-c", inside]


def _report(asked, at: int, ways: list[Way]):
    size = asked.megabytes * 10**6
    speeds, firsts = {way.name: [] for way in ways}, {way.name: [] for way in ways}
    for _ in range(asked.rounds):
        for way in ways:
            speeds[way.name].append(measures.throughput(way, at, size=size, at_once=4))
            firsts[way.name].append(measures.first_byte(way, at, times=20))
    print(f"{'':20}{'MB per CPU s':>14}{'MB/s':>8}{'first byte ms':>15}{'CPU ms each':>13}")
    middle = {}
    for way in ways:
        pairs = [*zip(*speeds[way.name], strict=True), *zip(*firsts[way.name], strict=True)]
        found = [statistics.median(pair) for pair in pairs]
        middle[way.name] = found
        print(f"{way.name:20}{found[0]:14.0f}{found[1]:8.0f}{found[2]:15.1f}{found[3]:13.1f}")
    for ours_, theirs in ((ways[0], ways[1]), (ways[2], ways[3])):
        own, other = middle[ours_.name], middle[theirs.name]
        print(f"{ours_.name}: {own[0] / other[0]:.2f} x the throughput, {own[2] / other[2]:.2f} x the first byte"
              f" of {theirs.name}")  # fmt: skip
    for way in (ways[0], ways[2]):
        whole, more = measures.memory(way, at, connections=500)
        print(f"{way.name}: 500 connections in {whole:.0f} MB, {more:.0f} MB more than none")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def _until_open(port: int):
    for _ in range(1800):  # mitmproxy takes a minute to start on a busy machine
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens at {port}")


if __name__ == "__main__":
    main()
