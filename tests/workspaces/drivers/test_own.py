"""A tree that is given to another user keeps what a change of owner takes away."""

import os

import pytest

from workspaces.drivers.sandbox.driver import CAPABILITIES, own


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_modes_and_capabilities_stay(tmp_path):
    top = tmp_path / "tree"
    (top / "shared").mkdir(parents=True)
    capability = bytes.fromhex("0100000200200000" + "00" * 12)
    for name, mode in (("suid", 0o4755), ("sgid", 0o2755), ("both", 0o6711), ("plain", 0o640), ("able", 0o755)):
        (top / name).write_text("x")
        os.chmod(top / name, mode)
    os.chmod(top / "shared", 0o2775)
    os.setxattr(top / "able", CAPABILITIES, capability)
    os.symlink("/etc/passwd", top / "link")
    own(top, 1000)
    found = {path.name: (path.lstat().st_uid, path.lstat().st_mode & 0o7777) for path in top.iterdir()}
    assert found == {
        "suid": (1000, 0o4755),
        "sgid": (1000, 0o2755),
        "both": (1000, 0o6711),
        "plain": (1000, 0o640),
        "able": (1000, 0o755),
        "shared": (1000, 0o2775),
        "link": (1000, 0o777),
    }
    assert os.getxattr(top / "able", CAPABILITIES)[:8] == capability[:8]
    assert os.stat("/etc/passwd").st_uid == 0
