"""What a guest of ours is besides the contract of all drivers: a machine, disks, ports, and an end that is known."""

import contextlib
import json
import os
import signal
import threading
from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.microvm.conftest import SMALL
from workspaces.drivers import cgroups
from workspaces.drivers.base import DriverError, Limits
from workspaces.drivers.init_client import InitClient, InitGone
from workspaces.drivers.microvm import machine
from workspaces.store import Store

CONSOLE_BYTES = 64 << 10  # of bridge.py, which is no module to import


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_a_guest_has_a_kernel_of_its_own_and_no_network_card(standing):
    assert standing.sh("uname -r").strip() != os.uname().release
    assert standing.sh("ls /sys/class/net") == "lo\n"
    assert standing.sh("hostname; id -un; pwd") == "payments-fix\nagent\n/workspace\n"


def test_two_from_one_template_share_nothing_that_should_differ(standing, guests):
    other = guests().start()
    tell = "cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid"
    mine, its = standing.sh(tell).split("\n"), other.sh(tell).split("\n")
    assert [one == two for one, two in zip(mine[:3], its[:3], strict=True)] == [False] * 3
    standing.sh("echo mine > /workspace/file; echo mine > /tmp/file; echo mine > ~/file")
    assert other.sh("ls -A /workspace /tmp ~ | grep file || echo none") == "none\n"


def test_its_machine_id_stays_its_own(standing):
    before = standing.sh("cat /etc/machine-id")
    standing.stop()
    assert standing.start().sh("cat /etc/machine-id") == before


def test_files_are_there_before_and_after(guests):
    guest = guests()
    (guest.spec.workspace / "src").mkdir()
    (guest.spec.workspace / "src" / "a").write_text("from the host\n")
    (guest.spec.workspace / "link").symlink_to("src/a")
    guest.start()
    assert guest.sh("cat link; echo more >> src/a; sync; stat -c %U src/a") == "from the host\nagent\n"
    assert sorted(os.listdir(guest.spec.workspace)) == [".handrail-microvm"]
    guest.stop()
    guest.check_disk()
    assert guest.start().sh("cat src/a") == "from the host\nmore\n"


def test_the_store_scans_restores_and_proves_through_the_guest(standing, tmp_path):
    store = Store.create(tmp_path / "store")
    standing.sh("rm -rf *")
    standing.sh(
        "mkdir -p a/b; echo one > a/b/c; ln a/b/c hard; ln -s nowhere loose; touch -d 2001-01-01 a; chmod 600 hard"
    )
    first = store.snapshot(standing.tree())
    standing.sh("rm -r a; echo two > hard; mkdir new; echo x > new/x")
    second = store.snapshot(standing.tree())
    store.restore(first.tree, standing.tree(), journal=tmp_path / "journal")
    assert store.compare(first.tree, standing.tree(), full=True).differ == []
    assert standing.sh("cat a/b/c; readlink loose; stat -c %Y a; stat -c %h hard; ls") == (
        "one\nnowhere\n978307200\n2\na\nhard\nloose\n"
    )
    store.restore(second.tree, standing.tree(), journal=tmp_path / "journal")
    assert store.compare(second.tree, standing.tree(), full=True).differ == []


def test_the_disk_is_as_large_as_was_asked_and_gives_room_back(standing):
    standing.sh("rm -rf *")
    assert "No space left" in standing.sh("fallocate -l 990M a; dd if=/dev/zero of=big bs=1M count=40 2>&1; rm big a")
    standing.sh("head -c 10M /dev/urandom > big; sync")
    full = standing.disk.stat().st_blocks * 512
    standing.sh("rm big; sync")
    until(lambda: standing.disk.stat().st_blocks * 512 < full - (8 << 20), 60)


def test_memory_and_processes_end_at_their_limits(guests):
    guest = guests(replace(SMALL, pids=40)).start()
    assert guest.owner.limits >= {"memory", "pids", "disk"}
    assert "cannot fork" in guest.sh("(for i in $(seq 100); do sleep 5 & done) 2>&1 | tr A-Z a-z | head -c 4000; true")
    with InitClient(guest.owner.address.socket, timeout_s=60) as init:
        argv = ["python3", "-c", "x = [bytes([1]) * (1 << 24) for _ in range(1000)]"]
        started = init.start(argv, env=dict(guest.owner.address.env), cwd="/workspace", stdio="pipe")
        os.close(started.fd)
        until(lambda: (init.read_exits(), init.exits)[1], 180)
        assert init.exits == type(init.exits)([(started.pid, -signal.SIGKILL)])
    assert cgroups.oom_kills(guest.owner.address.oom_file) > 0


def test_a_port_inside_can_be_dialled(standing):
    standing.leave("exec python3 -m http.server --bind 127.0.0.1 8000")
    standing.sh("echo page > page; until bash -c ': < /dev/tcp/127.0.0.1/8000' 2>/dev/null; do sleep 0.1; done")
    with InitClient(standing.owner.address.socket, timeout_s=60) as client:
        connection = client.dial(8000)
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            assert lines.read().endswith(b"\r\n\r\npage\n")
        with pytest.raises(DriverError, match="refused"):
            client.dial(9)
    listens = "import socket as s, time; x = s.create_server(('::1', 8001), family=s.AF_INET6); time.sleep(9000)"
    standing.leave(f'exec python3 -c "{listens}"')
    standing.sh("until bash -c ': < /dev/tcp/::1/8001' 2>/dev/null; do sleep 0.1; done")
    standing.do.dial(standing.owner, 8001).close()
    with pytest.raises(ConnectionRefusedError):
        standing.do.dial(standing.owner, 9)


@pytest.mark.parametrize("who", ["bridge", "qemu"])
def test_a_killed_part_takes_the_other_along_and_the_disk_is_sound(standing, who):
    standing.sh("echo before > file; sync")
    standing.leave("while :; do echo x >> growing; sync; done")
    bridge, [qemu] = standing.owner.pid, children(standing.owner.pid)
    os.kill(bridge if who == "bridge" else qemu, signal.SIGKILL)
    until(lambda: not standing.do.alive(standing.owner))
    until(lambda: not os.path.exists(f"/proc/{qemu}"))
    assert standing.do.end_reason(standing.owner) == "crashed"
    standing.do.clear(standing.owner)
    standing.check_disk_as_it_lies()
    standing.start()
    assert standing.sh("cat file; rm -f growing") == "before\n"


def test_a_guest_that_powers_off_is_gone(guest):
    with InitClient(guest.owner.address.socket, timeout_s=60) as client, contextlib.suppress(InitGone):
        client.request("stop", grace_s=0.0)  # the guest may be gone before its answer is
    until(lambda: not guest.do.alive(guest.owner), 20)
    guest.check_disk()


def test_a_console_that_never_stops_fills_neither_the_hosts_disk_nor_its_memory(guests, monkeypatch):
    """A guest whose first program prints for ever: what stays is the beginning, and the bridge stays small."""
    monkeypatch.setattr(machine, "KERNEL_LINE", f"{machine.KERNEL_LINE} rdinit=/bin/busybox yes {'x' * 200}")
    guest = guests(Limits(memory=200 << 20, disk=1 << 30))  # of no template's shape, so it boots
    spec = guest.next_spec()
    guest.do.prepare(spec)
    folder = guest.ground / "handrail" / "runs" / spec.run_id

    def start():
        with contextlib.suppress(DriverError):  # it never comes up
            guest.do.start(spec)

    starting = threading.Thread(target=start)
    starting.start()
    try:
        until(lambda: (folder / "log").exists() and (folder / "log").stat().st_size >= CONSOLE_BYTES, 180)
        bridge = json.loads((folder / "record.json").read_text())["pid"]
        [qemu] = children(bridge)
        before = used(qemu)
        assert (folder / "log").read_bytes().count(b"x" * 200) > 200
        until(lambda: used(qemu) > before + 50, 60)  # it goes on printing for half a second of its time
        assert (folder / "log").stat().st_size < CONSOLE_BYTES + (64 << 10)
        assert resident(bridge) < 64 << 20
    finally:
        os.kill(json.loads((folder / "record.json").read_text())["pid"], signal.SIGKILL)
        starting.join(60)


def used(pid: int) -> int:
    """Processor time in hundredths of a second."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_after_a_fork_bomb_a_command_starts_and_can_end_all_others(guests):
    guest = guests(replace(SMALL, pids=40)).start()
    with InitClient(guest.owner.address.socket, timeout_s=60) as init:
        argv = ["bash", "-c", "b() { b | b & }; b; exec sleep 60"]
        started = init.start(argv, env=dict(guest.owner.address.env), cwd="/workspace", stdio="pipe", keep=True)
        os.close(started.fd)
        assert init.request("tasks", timeout_s=60)["tasks"] >= 1
        guest.sh("sleep 3")
    assert "inside" in guest.sh("exec bash -c 'echo inside; kill -KILL -1; echo on'")
    assert guest.sh("true | id -u").strip().isdigit()
