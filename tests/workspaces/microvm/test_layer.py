"""What a set-up installs in a guest: kept as a layer, and below the root of every Run that follows."""

import os
import uuid
from dataclasses import replace

import pytest

from tests.workspaces.microvm.conftest import e2fsck
from workspaces.drivers.base import DriverError, ImageMissing, Layer

# A file that is new, one in place of another, one removed, a folder emptied and made again, a user.
SETUP = """
set -eu
test "$(id -u) $USER" = "0 root"
echo "$TOKEN" | wc -c > deep; chmod u+s deep; mkdir in; echo x > in/made
echo 'echo installed' > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool
echo other > /etc/issue; rm /etc/debian_version; ln -s tool /usr/local/bin/link
rm -r /etc/skel; mkdir /etc/skel; echo new > /etc/skel/only
useradd --system tooluser
mkdir -p /etc/claude-code/managed-settings.d; echo theirs > /etc/claude-code/managed-settings.json
chown -R agent /etc/claude-code
for place in /tmp /var/tmp /run; do echo gone > $place/gone; done
"""
HELD = "! mount -t tmpfs none /mnt; ! mknod /opt/disk b 254 0; ! echo x > /proc/sys/kernel/core_pattern; ls /dev/vd*"
SEEN = """
tool; link; cat /etc/issue; ls -A /etc/skel; id -un tooluser; cat /etc/hostname
cd /etc/claude-code; ls -A . managed-settings.d; cat managed-settings.json
stat -c '%U %a' . managed-settings.json; cd /workspace
ls -d /etc/debian_version /tmp/gone /var/tmp/gone /run/gone /opt/disk || echo gone
id -un; stat -c '%U %a' deep in in/made; touch /usr/local/bin/mine /etc/mine || echo read-only
"""
EXPECTED = """\
installed
installed
other
only
tooluser
payments-fix
.:
managed-settings.json
ours
root 755
root 444
gone
agent
agent 644
agent 755
agent 644
read-only
"""
SYSTEM_FILES = {"claude-code/managed-settings.json": b"ours\n"}
OWN = "cat /etc/machine-id; od -An -N16 -tx1 /dev/urandom"


def own(guest) -> list[str]:
    """[machine id, random bytes]"""
    return guest.sh(OWN).splitlines()


def test_what_a_set_up_installs_is_below_the_root_of_every_run_that_follows(guests):
    guest, other = guests(), guests()
    guest.do.prepare(guest.spec)
    guest.do.warm(guest.spec)
    folder, layer = guest.driver.layers.folder, Layer(uuid.uuid4().hex, touched_workspace=False)
    guest.start(phase="setup", env={"TOKEN": "planted"})
    guest.sh(SETUP)
    assert "No such file" in guest.sh(f"({HELD}) 2>&1 || true").splitlines()[-1]
    guest.do.end_programs(guest.owner, grace_s=0.0)
    with pytest.raises(DriverError, match="holds a secret"):
        guest.do.keep_layer(guest.owner, layer, inspect=refuses)
    assert guest.do.find_layer(layer.name) is None
    shown = {}
    kept = guest.do.keep_layer(guest.owner, layer, inspect=lambda path, file: shown.update({path: file.read()}))
    assert (shown["/usr/local/bin/tool"], shown["/etc/skel/only"]) == (b"echo installed\n", b"new\n")
    assert not {"/etc/hostname", "/etc/machine-id", "/etc/hosts", "/tmp/gone", "/etc/debian_version"} & set(shown)
    guest.do.clear(guest.owner)
    e2fsck("-n", folder / layer.name / "disk")
    assert (kept.touched_workspace, guest.do.find_layer(layer.name)) == (False, kept)

    # It is read-only for all, and each of those who start on it is somebody of its own.
    before = os.stat(folder / layer.name / "disk")
    for each in (guest, other):
        each.start(phase="agent", image=kept.digest, env={}, system_files=SYSTEM_FILES)
    assert guest.sh(f"({SEEN}) 2>/dev/null") == EXPECTED
    assert guest.owner.image.endswith(f" with layer {kept.digest}")
    mine, its = own(guest), own(other)
    assert [one == two for one, two in zip(mine, its, strict=True)] == [False] * 2
    # Kept memory belongs to the layer that it ran on, whatever is named by then.
    guest.do.pause(guest.owner, replace(guest.spec, image=f"sha256:{'0' * 64}"))
    guest.do.clear(guest.owner)
    why = guest.do.why_no_memory(replace(guest.spec, image=None))
    assert why.endswith("different versions: what its setup has installed.")
    assert guest.do.why_no_memory(guest.spec) == ""
    guest.resume()
    assert guest.sh(f"({SEEN}) 2>/dev/null") == EXPECTED
    guest.stop()
    guest.start()
    assert own(guest)[0] == mine[0]
    guest.stop()
    guest.check_disk()
    after = os.stat(folder / layer.name / "disk")
    assert (after.st_mtime_ns, after.st_mode & 0o777) == (before.st_mtime_ns, 0o444)

    # It goes once it is old and nobody names it; who starts on it then is told.
    assert guest.do.collect({layer.name}, older_than_s=-60) == guest.do.collect({kept.digest}, older_than_s=-60) == []
    assert guest.do.collect(set(), older_than_s=3600) == []
    assert guest.do.collect(set(), older_than_s=-60) == [layer.name]
    with pytest.raises(ImageMissing, match="no image or setup layer"):
        guest.do.find_image(kept.digest)
    with pytest.raises(ImageMissing):
        guest.start()
    assert guest.do.find_image(guest.driver.default_image) != kept.digest


def refuses(path: str, file) -> None:
    raise DriverError(f"{path} holds a secret")
