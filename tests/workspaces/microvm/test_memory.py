"""A pause that keeps what runs: it goes on, it is used up, and it is refused wherever it does not fit."""

import os
import random
import resource
import shutil
import subprocess
import time
import zipfile
from dataclasses import replace

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient, InitGone
from workspaces.drivers.microvm import disks, driver
from workspaces.drivers.microvm.driver import write_bridge
from workspaces.store import Store

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))  # 50 for the long proof
EDITS = 100


def counted(guest) -> int:
    return int(guest.sh("cat /tmp/count"))


def test_what_runs_goes_on_and_no_file_differs(guest, tmp_path):
    guest.leave("n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.3; done")
    store = Store.create(tmp_path / "store")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    before = until(lambda: counted(guest) if guest.sh("ls /tmp/count* || true") else 0)
    for _ in range(ROUNDS):
        guest.sh("python3 -c '" + EDITOR.format(seed=chance.randrange(1 << 32), edits=EDITS) + "'")
        kept = store.snapshot(guest.tree())
        guest.pause()
        guest.check_disk_as_it_lies()
        guest.resume()
        proof = store.compare(kept.tree, guest.tree(), full=True)
        assert (proof.entries, proof.differ) == (kept.entries, [])
        now = until(lambda before=before: (found := counted(guest)) > before and found)
        before = now
    assert kept.entries > EDITS / 2
    guest.stop()
    guest.check_disk()


EDITOR = """
import os, random
chance = random.Random({seed})
for n in range({edits}):
    folder = "d%d" % chance.randrange(8)
    os.makedirs(folder, exist_ok=True)
    path = "%s/f%d" % (folder, chance.randrange(400))
    what = chance.randrange(5)
    if what == 0 and os.path.lexists(path):
        os.unlink(path)
    elif what == 1 and os.path.exists(path):
        os.rename(path, path + "r")
    else:
        with open(path, "ab") as file:
            file.write(chance.randbytes(chance.randrange(20000)))
        os.chmod(path, chance.choice([0o600, 0o644, 0o755]))
"""


def test_memory_is_used_up_by_the_resume(guest):
    guest.pause()
    assert (guest.memory.exists(), guest.do.why_no_memory(guest.spec)) == (True, "")
    guest.resume()
    assert guest.memory.exists() is False
    assert guest.do.why_no_memory(guest.spec) == "No memory was saved."


def test_the_clock_is_right_and_random_numbers_are_fresh_after_a_resume_an_hour_later(guests, monkeypatch):
    """What the guest was told at its start came from a host an hour ago, so that to it an hour went by.

    Then the same memory is used a second time, with the disk as it was, which no driver does: the pool alone differs.
    """
    guest = guests()
    with monkeypatch.context() as earlier:
        earlier.setattr(driver, "write_bridge", write_bridge_of_an_hour_ago)
        guest.start()
    then = clock_of(guest)
    assert abs(then + 3600 - time.time()) < 5
    guest.leave("while :; do sleep 0.3; date +%s > /tmp/tick.new; mv /tmp/tick.new /tmp/tick; done")
    until(lambda: guest.sh("ls /tmp").split().count("tick"))  # emulated processors may take seconds for the first
    guest.pause()
    kept = [(place, guest.ground / f"again-{n}") for n, place in enumerate(state_of(guest))]
    for place, copy in kept:
        subprocess.run(["cp", "-a", "--sparse=always", place, copy], check=True)
    numbers = []
    for _ in range(2):
        guest.resume()
        numbers.append(guest.sh("head -c 32 /dev/urandom | base64"))
        before = time.time()
        inside = clock_of(guest)
        assert before - 0.5 < inside < time.time() + 0.5
        until(lambda now=before: int(guest.sh("cat /tmp/tick")) > now)  # timers of before the pause go on as well
        guest.stop()
        guest.check_disk()
        for place, copy in kept:
            subprocess.run(["cp", "-a", "--sparse=always", copy, place], check=True)
    assert numbers[0] != numbers[1]


def write_bridge_of_an_hour_ago(path):
    write_bridge(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    now = "time.time_ns()"
    assert now in parts["bridge.py"]
    parts["bridge.py"] = parts["bridge.py"].replace(now, f"({now} - 3600 * 10**9)")
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def clock_of(guest) -> float:
    return float(guest.sh("date +%s.%N"))


def state_of(guest):
    """The files that a resume takes, and changes or removes."""
    folders = [guest.spec.workspace, guest.spec.home]
    return [guest.memory, *(disks.guest_folder(folder) / name for folder in folders for name in ("disk", "disk.json"))]


def test_a_boot_discards_the_memory(guest):
    guest.sh("echo kept > file")
    guest.leave("exec sleep 71")
    guest.pause()
    guest.start()
    assert guest.memory.exists() is False
    assert guest.sh("cat file") == "kept\n"
    assert guest.do.processes(guest.owner) == []


def test_memory_that_does_not_fit_is_refused_in_words_and_the_guest_boots(guest, tmp_path, monkeypatch):
    guest.sh("echo kept > file")
    guest.leave("exec sleep 71")
    guest.pause()
    guest.check_disk_as_it_lies()
    spec = guest.next_spec()
    more = replace(spec.limits, memory=512 << 20)
    cases = [
        (guest, replace(spec, generation=1), "another snapshot was restored"),
        (guest, replace(spec, limits=more), "the size of the memory"),
        (guest, replace(spec, limits=replace(spec.limits, cpus=2)), "the number of CPUs"),
        (_other_image(guest, tmp_path / "root", "root_sha256"), spec, "the image"),
        (_other_image(guest, tmp_path / "kernel", "vmlinuz_sha256"), spec, "the kernel"),
    ]
    for who, asked, words in cases:
        assert words in who.do.why_no_memory(asked)
        with pytest.raises(DriverError, match=words):
            who.do.resume(asked)
    with monkeypatch.context() as patch:
        _other_qemu(tmp_path, patch)
        with pytest.raises(DriverError, match="QEMU's version"):
            guest.do.resume(spec)
    disks.next_generation(spec.workspace)  # as whatever writes to the disk does
    with pytest.raises(DriverError, match="the state of the disk"):
        guest.do.resume(spec)
    assert guest.do.records() == []
    guest.start()
    assert guest.memory.exists() is False
    assert guest.do.processes(guest.owner) == []
    assert guest.sh("cat file") == "kept\n"
    guest.stop()
    guest.check_disk()


def _other_image(guest, place, what):
    place.mkdir()
    images = place / "images"
    shutil.copytree(guest.driver.images, images, symlinks=True, copy_function=os.link)
    manifest = images / "current" / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()  # it is a link to the real one
    manifest.write_text(text.replace(f'"{what}": "', f'"{what}": "00'))
    for name in ("handrail", "run"):
        (place / name).mkdir()
    return type(guest)(place, 1, images=str(images))


def test_a_memory_that_the_hosts_disk_cannot_take_leaves_the_guest_as_it_was(guest):
    guest.sh("head -c 60M /dev/urandom > /dev/shm/much")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, hard))
    try:
        with pytest.raises(DriverError, match="The memory could not be written: File too large"):
            guest.do.pause(guest.owner, guest.spec)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in guest.memory.parent.iterdir() if path.name.startswith("memory")] == []
    assert guest.sh("stat -c %s /dev/shm/much") == f"{60 << 20}\n"
    guest.pause()
    guest.resume()
    assert guest.sh("stat -c %s /dev/shm/much") == f"{60 << 20}\n"


def _other_qemu(tmp_path, patch):
    real = shutil.which("qemu-system-x86_64")
    fake = tmp_path / "bin" / "qemu-system-x86_64"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "QEMU emulator version 9.9.9" || exec {real} "$@"\n')
    fake.chmod(0o755)
    patch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_memory_that_was_damaged_never_reaches_a_guest(guest, harm):
    guest.sh("echo kept > file")
    guest.pause()
    size = guest.memory.stat().st_size
    with open(guest.memory, "r+b") as file:
        if harm == "cut":
            file.truncate(size - 1000)
        else:
            file.seek(size // 2)
            byte = file.read(1)
            file.seek(size // 2)
            file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(DriverError, match=r"not whole|damaged"):
        guest.resume()
    assert guest.do.records() == []
    guest.start()
    assert guest.sh("cat file") == "kept\n"


def test_memory_is_not_readable_on_the_disk(guest):
    guest.leave("SECRET=correct-horse-battery-staple; export SECRET; exec sleep 72")
    guest.pause()
    import zstandard

    raw = guest.memory.read_bytes()
    assert b"correct-horse" not in raw
    with pytest.raises(zstandard.ZstdError):
        zstandard.ZstdDecompressor().decompressobj().decompress(raw[raw.index(b"\n", 12) :])
    assert guest.memory.stat().st_mode & 0o077 == 0


def test_a_terminal_of_before_the_pause_ends_and_its_shell_goes_on(guest):
    with InitClient(guest.owner.address.socket, timeout_s=60) as init:
        env, cwd = dict(guest.owner.address.env), guest.owner.address.cwd
        loop = "trap '' HUP; while :; do date > alive; sleep 0.3; done"
        init.start(["/bin/sh", "-c", loop], env=env, cwd=cwd, stdio="pty")
        until(lambda: guest.sh("cat alive || true"))
        guest.do.pause(guest.owner, guest.spec)
        with pytest.raises(InitGone):
            init.request("processes")
    guest.do.clear(guest.owner)
    guest.resume()
    guest.sh("rm alive")
    until(lambda: guest.sh("cat alive 2>/dev/null || true"))
