"""No held program makes a file that others run as its owner; what builds do with modes works as ever."""

import pytest

from tests.workspaces.envelope.held import Held
from workspaces.envelope.envelope import MEDIUM
from workspaces.envelope.ring import is_held

CALLS = r"""
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
numbers = {"chmod": 90, "fchmodat": 268, "fchmodat2": 452, "open": 2, "openat": 257, "creat": 85, "mknod": 133,
           "mknodat": 259, "openat2": 437} if x86 else {"fchmodat": 53, "fchmodat2": 452, "openat": 56, "mknodat": 33,
           "openat2": 437}
CREATE = os.O_CREAT | os.O_WRONLY
for bits in (0o4755, 0o2755, 0o6755):
    name = f"made-{bits:o}"
    how = struct.pack("QQQ", CREATE, bits, 0)
    calls = {
        "chmod": ("old", bits), "fchmodat": (-100, "old", bits), "fchmodat2": (-100, "old", bits, 0),
        "open": (f"{name}-1", CREATE, bits), "openat": (-100, f"{name}-2", CREATE, bits), "creat": (f"{name}-3", bits),
        "mknod": (f"{name}-4", 0o100000 | bits, 0), "mknodat": (-100, f"{name}-5", 0o100000 | bits, 0),
        "openat2": (-100, f"{name}-6", how, len(how)),
    }
    for call, number in numbers.items():
        arguments = [each.encode() if isinstance(each, str) else each for each in calls[call]]
        print(call, libc.syscall(number, *arguments))
    with open("old") as file:
        print("fchmod", libc.fchmod(file.fileno(), bits))
    fd = libc.syscall(numbers["openat"], -100, b".", 0o20000000 | os.O_DIRECTORY | os.O_WRONLY, bits)
    print("tmpfile", fd)
"""
ORDINARY = (
    "chmod 755 old && chmod +x old && chmod 1777 . && chmod 755 . && install -m 700 old new && umask 077 && touch x && "
    "cp -p old kept && tar -cf a.tar old && mkdir out && tar -xf a.tar -C out && git init -q repo && mkfifo pipe && "
    "python3 -c \"import shutil, tempfile; shutil.copytree('out', 'copy'); tempfile.TemporaryFile().close()\""
)


@pytest.fixture(params=["sandbox", "microvm"])
def held(request, begin, require):
    held = Held(begin(request.param))
    if not is_held(held.abilities):
        require("mount views", f"{request.param} has {held.abilities}")
    assert held.run.sh("touch old")[1] == 0
    return held


def test_no_call_gives_a_file_such_a_bit(held):
    output, _status = held.python(CALLS, MEDIUM)
    assert {line.split()[1] for line in output.splitlines()} == {"-1"}, output
    assert len(output.splitlines()) >= 18
    assert held.run.sh("find . -perm /6000")[0] == ""


def test_the_refusal_is_named_and_the_program_goes_on(held):
    output, status, blocked = held.told("chmod u+s old; chmod 4755 old; echo on", MEDIUM)
    assert (output.endswith("on\n"), status) == (True, 0)
    assert [entry["what"] for entry in blocked] == ["set-user-ID or set-group-ID bit (fchmodat)"] or "chmod" in str(
        blocked
    )


def test_no_file_gets_a_capability_and_no_device_is_made(held):
    held.python(
        "import os; os.setxattr('old', 'security.capability', bytes.fromhex('0100000200200000' + '00' * 12))", MEDIUM
    )
    assert held.sh("mknod disk b 8 0 || mknod null c 1 3", MEDIUM)[1] != 0
    assert held.run.sh("python3 -c \"import os; print(os.listxattr('old'))\"; ls")[0].split() == ["[]", "old"]


def test_what_builds_do_with_modes_works(held):
    assert held.sh(ORDINARY, MEDIUM) == ("", 0)
