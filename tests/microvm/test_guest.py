"""What a guest of ours is besides the contract of all drivers: a machine, disks, ports, and an end that is known."""

import os
import signal
import time

import pytest

from tests.drivers.runs import until
from workspaces.drivers import cgroups
from workspaces.drivers.base import DriverError, Limits
from workspaces.drivers.initclient import InitClient
from workspaces.store import Store


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_it_has_a_kernel_of_its_own_and_no_network_card(guest):
    assert guest.sh("uname -r").strip() != os.uname().release
    assert guest.sh("ls /sys/class/net") == "lo\n"
    assert guest.sh("hostname; id -un; pwd") == "payments-fix\nagent\n/workspace\n"


def test_two_from_one_template_share_nothing_that_should_differ(guest, guests):
    other = guests().start()
    tell = "cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid"
    mine, its = guest.sh(tell).split("\n"), other.sh(tell).split("\n")
    assert [one == two for one, two in zip(mine[:3], its[:3], strict=True)] == [False] * 3
    guest.sh("echo mine > /workspace/file; echo mine > /tmp/file; echo mine > ~/file")
    assert other.sh("ls -A /workspace /tmp ~ | grep file || echo none") == "none\n"


def test_its_machine_id_stays_its_own(guest):
    before = guest.sh("cat /etc/machine-id")
    guest.stop()
    assert guest.start().sh("cat /etc/machine-id") == before


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


def test_the_store_scans_restores_and_proves_through_the_guest(guest, tmp_path):
    store = Store.create(tmp_path / "store")
    guest.sh(
        "mkdir -p a/b; echo one > a/b/c; ln a/b/c hard; ln -s nowhere loose; touch -d 2001-01-01 a; chmod 600 hard"
    )
    first = store.snapshot(guest.tree())
    guest.sh("rm -r a; echo two > hard; mkdir new; echo x > new/x")
    second = store.snapshot(guest.tree())
    store.restore(first.tree, guest.tree(), journal=tmp_path / "journal")
    assert store.compare(first.tree, guest.tree(), full=True).differ == []
    assert guest.sh("cat a/b/c; readlink loose; stat -c %Y a; stat -c %h hard; ls") == (
        "one\nnowhere\n978307200\n2\na\nhard\nloose\n"
    )
    store.restore(second.tree, guest.tree(), journal=tmp_path / "journal")
    assert store.compare(second.tree, guest.tree(), full=True).differ == []


def test_the_disk_is_as_large_as_was_asked_and_gives_room_back(guest):
    assert "No space left" in guest.sh("fallocate -l 990M a; dd if=/dev/zero of=big bs=1M count=40 2>&1; rm big a")
    guest.sh("head -c 10M /dev/urandom > big; sync")
    full = guest.disk.stat().st_blocks * 512
    guest.sh("rm big; sync")
    until(lambda: guest.disk.stat().st_blocks * 512 < full - (8 << 20), 60)


def test_memory_and_processes_end_at_their_limits(guests):
    guest = guests(Limits(memory=256 << 20, disk=1 << 30, pids=40))
    guest.start()
    assert guest.owner.limits >= {"memory", "pids", "disk"}
    assert "cannot fork" in guest.sh("(for i in $(seq 100); do sleep 5 & done) 2>&1 | tr A-Z a-z | head -c 4000; true")
    with InitClient(guest.owner.address.socket, timeout_s=60) as init:
        argv = ["python3", "-c", "x = [bytes([1]) * (1 << 24) for _ in range(1000)]"]
        started = init.start(argv, env=dict(guest.owner.address.env), cwd="/workspace", stdio="pipe")
        os.close(started.fd)
        until(lambda: (init.read_exits(), init.exits)[1], 60)
        assert init.exits == type(init.exits)([(started.pid, -signal.SIGKILL)])
    assert cgroups.oom_kills(guest.owner.address.oom_file) > 0


def test_a_port_inside_can_be_dialled(guest):
    guest.leave("exec python3 -m http.server --bind 127.0.0.1 8000")
    guest.sh("echo page > page; until bash -c ': < /dev/tcp/127.0.0.1/8000' 2>/dev/null; do sleep 0.1; done")
    with InitClient(guest.owner.address.socket, timeout_s=60) as client:
        connection = client.dial(8000)
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            assert lines.read().endswith(b"\r\n\r\npage\n")
        with pytest.raises(DriverError, match="refused"):
            client.dial(9)


@pytest.mark.parametrize("who", ["bridge", "qemu"])
def test_a_killed_part_takes_the_other_along_and_the_disk_is_sound(guest, who):
    guest.sh("echo before > file; sync")
    guest.leave("while :; do echo x >> growing; sync; done")
    bridge, [qemu] = guest.owner.pid, children(guest.owner.pid)
    os.kill(bridge if who == "bridge" else qemu, signal.SIGKILL)
    until(lambda: not guest.do.alive(guest.owner))
    until(lambda: not os.path.exists(f"/proc/{qemu}"))
    assert guest.do.end_reason(guest.owner) == "its first process was killed or crashed"
    guest.do.clear(guest.owner)
    guest.start()
    assert guest.sh("cat file") == "before\n"
    guest.stop()
    guest.check_disk()


def test_a_guest_that_powers_off_is_gone(guest):
    with InitClient(guest.owner.address.socket, timeout_s=60) as client:
        client.request("stop", grace_s=0.0)
    until(lambda: not guest.do.alive(guest.owner), 20)
    guest.check_disk()


def test_a_console_that_never_stops_does_not_fill_the_hosts_disk(guest):
    time.sleep(0.1)
    assert (guest.ground / "handrail" / "runs" / guest.spec.run_id / "log").stat().st_size < 200_000
