"""Debian's Firefox, driven over Marionette: its own protocol, JSON over a socket, for which no driver is needed."""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.product import free_port

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's reference, by the WebDriver standard
# Nothing is asked of the outside. Marionette's own recommended preferences would switch off the push connection.
PREFERENCES = {
    "remote.prefs.recommended": False,
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.region.network.url": "",
    "browser.safebrowsing.downloads.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.search.update": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "browser.tabs.warnOnClose": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.type": 0,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "signon.rememberSignons": False,
    "startup.homepage_welcome_url": "about:blank",
    "toolkit.telemetry.enabled": False,
    # Notifications without a desktop around.
    "alerts.useSystemBackend": False,
    "permissions.default.desktop-notification": 1,
}


class Firefox:
    """A headless Firefox with a profile of its own in `folder`. `go`, `run` and `click` drive its one tab."""

    def __init__(self, folder: Path, **preferences):
        self.folder, self.port, self._number = folder, free_port(), 0
        profile = folder / "profile"
        profile.mkdir(parents=True)
        chosen = PREFERENCES | {"marionette.port": self.port} | preferences
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in chosen.items()]
        (profile / "user.js").write_text("\n".join(lines))
        command = [shutil.which("firefox-esr"), "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        command.append("-remote-allow-system-access")  # for `chrome`
        environment = {
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
            "MOZ_CRASHREPORTER_DISABLE": "1",
            "LANG": "C.UTF-8",
        }
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._connect(within=60)
        except BaseException:
            self.close()
            raise

    def _connect(self, *, within: float):
        deadline = time.monotonic() + within
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError((self.folder / "log").read_text(errors="replace")[-3000:]) from None
                time.sleep(0.1)
        self._reader = self._socket.makefile("rb")
        self._read()  # who it is
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": False}})

    def _read(self):
        length = b""
        while (byte := self._reader.read(1)) != b":":
            if not byte:
                raise AssertionError("Firefox closed the connection")
            length += byte
        return json.loads(self._reader.read(int(length)))

    def call(self, command: str, **parameters):
        """One Marionette command; what it returns, or AssertionError with what Firefox says."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, number, error, result = self._read()
        assert number == self._number
        if error:
            raise AssertionError(f"{command}: {error['error']}: {error['message']}")
        return result.get("value", result) if isinstance(result, dict) else result

    def go(self, address: str):
        self.call("WebDriver:Navigate", url=address)

    def run(self, script: str, *arguments):
        """Run an async function's body in the page, with `arguments`; return what it returns."""
        body = f"const done = arguments[arguments.length - 1]; (async (...arguments) => {{ {script} }})(...arguments)"
        body += ".then((value) => done({value}), (error) => done({error: String(error)}));"
        found = self.call("WebDriver:ExecuteAsyncScript", script=body, args=list(arguments), scriptTimeout=30_000)
        if found is None:
            raise AssertionError("the page went away")
        if "error" in found:
            raise AssertionError(found["error"])
        return found.get("value")

    def click(self, selector: str):
        """A click by Firefox itself, which pages trust as a person's."""
        found = self.call("WebDriver:FindElement", using="css selector", value=selector)
        self.call("WebDriver:ElementClick", id=found[ELEMENT])

    @contextlib.contextmanager
    def chrome(self):
        """Within it, `run` sees Firefox's own windows in the place of the page."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            yield
        finally:
            self.call("Marionette:SetContext", value="content")

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self._reader.close()
            self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
