"""A pause that keeps what runs: it goes on, it is used up, and it is refused wherever it does not fit."""

import os
import pickle
import random
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from tests.drivers.runs import until
from workspaces.drivers.base import DriverError
from workspaces.drivers.initclient import InitClient, InitGone
from workspaces.store import Store

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))  # 50 for the long proof
EDITS = 100


def counted(guest) -> int:
    return int(guest.sh("cat /tmp/count"))


def test_what_runs_goes_on_and_no_file_differs(guest, tmp_path):
    guest.leave("n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done")
    store = Store.create(tmp_path / "store")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    before = until(lambda: counted(guest) if guest.sh("ls /tmp/count* || true") else 0)
    for _ in range(ROUNDS):
        guest.sh("python3 -c '" + EDITOR.format(seed=chance.randrange(1 << 32), edits=EDITS) + "'")
        kept = store.snapshot(guest.tree())
        guest.pause()
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
    assert guest.do.why_no_memory(guest.spec) == "No memory was kept."


def test_the_clock_is_right_and_random_numbers_are_fresh_after_a_resume(guest):
    guest.pause()
    kept = guest.ground / "kept"
    shutil.copy(guest.memory, kept)
    time.sleep(1.0)
    guest.resume()
    before = time.time()
    inside = float(guest.sh("date +%s.%N"))
    assert before - 0.5 < inside < time.time() + 0.5
    first = guest.sh("head -c 32 /dev/urandom | base64")
    assert first != guest.sh("head -c 32 /dev/urandom | base64")


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
    guest.pause()
    spec = guest.next_spec()
    more = replace(spec.limits, memory=512 << 20)
    other = _other_image(guest, tmp_path)
    cases = [
        (guest, replace(spec, generation=1), "put back to another snapshot"),
        (guest, replace(spec, limits=more), "the size of the memory"),
        (guest, replace(spec, limits=replace(spec.limits, cpus=2)), "the number of CPUs"),
        (other, spec, "the image"),
    ]
    for who, asked, words in cases:
        with pytest.raises(DriverError, match=words):
            who.do.resume(asked)
    with monkeypatch.context() as patch:
        _other_qemu(tmp_path, patch)
        with pytest.raises(DriverError, match="QEMU's version"):
            guest.do.resume(spec)
    assert guest.do.owners() == []
    guest.start()
    assert guest.sh("cat file") == "kept\n"


def _other_image(guest, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(guest.driver.images, images, symlinks=True, copy_function=os.link)
    manifest = images / "current" / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()  # it is a link to the real one
    manifest.write_text(text.replace('"root_sha256": "', '"root_sha256": "00'))
    for name in ("handrail", "run"):
        (tmp_path / name).mkdir()
    return type(guest)(tmp_path, 1, images=str(images))


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
    assert guest.do.owners() == []
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
        loop = "trap '' HUP; while :; do date > alive; sleep 0.05; done"
        init.start(["/bin/sh", "-c", loop], env=env, cwd=cwd, stdio="pty")
        until(lambda: guest.sh("cat alive || true"))
        guest.do.pause(guest.owner, guest.spec)
        with pytest.raises(InitGone):
            init.request("processes")
    guest.do.clear(guest.owner)
    guest.resume()
    guest.sh("rm alive")
    until(lambda: guest.sh("cat alive 2>/dev/null || true"))


def test_a_runner_killed_at_any_step_of_a_pause_leaves_a_guest_or_its_memory(guest):
    guest.leave("n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done")
    until(lambda: guest.sh("ls /tmp/count 2>/dev/null || true"), 30)
    script = textwrap.dedent("""
        import asyncio, pickle, sys
        from workspaces.drivers.microvm.driver import MicroVMDriver
        home, runtime, images, owner, spec = pickle.load(sys.stdin.buffer)
        driver = MicroVMDriver(home, runtime, {"images": images})
        print("now", flush=True)
        asyncio.run(driver.pause(owner, spec))
        print("done", flush=True)
    """)
    driver = guest.driver
    asked = pickle.dumps((driver.home, driver.runtime, str(driver.images), guest.owner, replace(guest.spec, env={})))
    for delay in [0.02, 0.3, 0.8, 1.5][: 2 * ROUNDS]:
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
            runner.stdin.write(asked)
            runner.stdin.close()
            runner.stdout.readline()
            time.sleep(delay)
            runner.kill()
        if not guest.do.alive(guest.owner):
            break  # it was quick enough: all is in the memory
        before = counted(guest)
        until(lambda before=before: counted(guest) > before)
        assert guest.memory.exists() is False
    if guest.do.alive(guest.owner):
        guest.do.pause(guest.owner, guest.spec)
    guest.do.clear(guest.owner)
    guest.resume()
    before = counted(guest)
    until(lambda: counted(guest) > before)
