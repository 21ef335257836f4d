"""Take a picture of a preview with a browser of this host, if an admin named one in HANDRAIL_CHROMIUM.

The page is content that nobody has checked, and the browser runs on the host. So it has its own sandbox, a profile that
is deleted with it, no rights of root, and it finds no address but the preview's own.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from dashboard.people.access import Caller
from dashboard.problems import conflict, unavailable
from workspaces.models import Screenshot, Snapshot
from workspaces.services import previews
from workspaces.services.screenshots import keeping

SECONDS = 40  # for the browser
SETTLE_MS = 3000  # for the page's scripts
SIZE = "1280,800"
NOBODY = 65534
_one_at_a_time = threading.Lock()


def why_not() -> str:
    """Return why no picture can be taken here, as a sentence; "" if one can."""
    if not settings.HANDRAIL_CHROMIUM:
        return "Handrail has no browser here (HANDRAIL_CHROMIUM), so it can't take the picture itself."
    if shutil.which(settings.HANDRAIL_CHROMIUM) is None:
        return f"There is no browser at {settings.HANDRAIL_CHROMIUM} (HANDRAIL_CHROMIUM)."
    return ""


def take(snapshot: Snapshot, port: int, *, caller: Caller, session_key: str = "") -> Screenshot:
    """Take a picture of what a port of the workspace serves now, and keep it with the snapshot.

    Problem 409 if there is no preview or browser, 422 for a port that is none, 503 if the browser made no picture.
    """
    if words := why_not():
        raise conflict(words)
    if not _one_at_a_time.acquire(blocking=False):
        raise conflict("Another picture is being taken. Try again in a moment.")
    try:
        address = previews.open_for(snapshot.workspace, port, caller=caller, session_key=session_key)
        data = _picture(address)
    finally:
        _one_at_a_time.release()
    return keeping.save(snapshot, data, page=previews.address_of(snapshot.workspace, port), by=caller.actor)


def _picture(address: str) -> bytes:
    """Return the PNG that the browser writes. Problem 503 if it writes none in time."""
    with tempfile.TemporaryDirectory(prefix="handrail-picture-") as folder:
        written = Path(folder, "page.png")
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, NOBODY, NOBODY)
        process = subprocess.Popen(
            _command(address, folder, written),
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **({"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root else {}),
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise unavailable(f"The browser took longer than {SECONDS} seconds.") from None
        finally:
            _end(process)
        if not written.is_file() or written.is_symlink():
            raise unavailable("The browser made no picture. Is its sandbox allowed on this host?")
        with written.open("rb") as file:
            return file.read(keeping.MAX_BYTES + 1)


def _end(process: subprocess.Popen):
    """Kill the browser with its children, which share its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _command(address: str, folder: str, written: Path) -> list[str]:
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return [
        shutil.which(settings.HANDRAIL_CHROMIUM),
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-sync",
        "--no-first-run",
        "--no-proxy-server",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={folder}/profile",
        f"--window-size={SIZE}",
        f"--virtual-time-budget={SETTLE_MS}",
        # Nothing but the preview, at its own port: not this host's services, not its network.
        f"--host-resolver-rules=MAP {parts.hostname}:{port} {_reached_at(parts.hostname)}:{port}, MAP * ~NOTFOUND",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        f"--screenshot={written}",
        address,
    ]


def _reached_at(host: str) -> str:
    """Return what a preview's name stands for: names below localhost are this machine."""
    return "127.0.0.1" if host.endswith(".localhost") else host
