"""The bridge of a guest: forwards the init's protocol to the agent in it, and reads its console.

A standalone program, standard library only, run as the workspace's user by `bootstrap.py`, which has started QEMU. QEMU
dies with the bridge, and the bridge ends with QEMU; together they are the Run's first process.

Operations beside those of every bridge, for the runner only:

  hold         make the guest write everything to its disk and send nothing more
  go           let it send again
  sync         make the guest write everything to its disk
  serve        make the guest serve its tree on the second port
  show_manifest  content   replace what programs of the guest read as .handrail/manifest.json

The bridge reads QEMU's console and logs a limited part of it, so that a guest cannot fill this host's disk by printing.
"""

import binascii
import os
import select
import selectors
import sys
import time

import base_bridge

CONSOLE_BYTES = 64 << 10
HAND_OUT_S = 5.0


class Bridge(base_bridge.Bridge):
    """The event loop between clients on the host, the guest's agent and QEMU's console."""

    HERE_ONLY = (*base_bridge.Bridge.HERE_ONLY, "hold", "go", "sync", "serve", "show_manifest")

    def __init__(self, listener, config, qemu, agent, console):
        super().__init__(listener, agent.detach(), config["ports"], config["oom"])
        self.config, self.qemu, self.console = config, qemu, console
        self.printed = 0

    def has_ended(self):
        return self.qemu.ended()

    def put_an_end(self):
        self.qemu.kill()

    def is_alone(self):
        # The guest is held or is a template, so clients are greeted here; they can still send `go`.
        return self.config["guest"] is None or self.line.held

    def run(self):
        self.console.setblocking(False)
        self.selector.register(self.console, selectors.EVENT_READ, self.show)
        self.ask({"op": "hello", "session": os.urandom(16).hex()}, self.greeted)
        super().run()
        while not self.qemu.ended():
            time.sleep(0.005)
        self.hand_out()

    def hand_out(self):
        """Deliver the data received from the guest before exiting: a paused guest does not send it again."""
        until = time.monotonic() + HAND_OUT_S
        for stream in list(self.line.streams.values()):
            while stream.fd is not None and stream.inbox and (left := until - time.monotonic()) > 0:
                select.select([], [stream.fd], [], left)
                stream.pour()

    def show(self, _mask):
        """Copy console output to stderr, up to CONSOLE_BYTES."""
        data = self.console.recv(1 << 16)
        if not data:
            self.selector.unregister(self.console)
            return
        if self.printed < CONSOLE_BYTES:
            self.printed += len(data)
            os.write(2, data)

    def greeted(self, answer):
        """After the guest's `hello`, configure or wake the guest, and greet the waiting clients."""
        guest = self.config["guest"]
        if guest is not None or answer["configured"]:
            what = {"op": "wake"} if answer["configured"] else guest
            self.ask(what | {"time_ns": time.time_ns(), "entropy": fresh_entropy()}, self.awake)
        # Clients need not wait for that answer: the guest handles messages in order. A template is not configured.
        self.up()

    def awake(self, answer):
        """Kill the guest if it could not be configured or woken."""
        if "error" in answer:
            print(f"the guest says: {answer['error']}", file=sys.stderr, flush=True)
            self.qemu.kill()

    # The bridge's own operations

    def here_hold(self, request, answer):
        self.ask({"op": "hold"}, answer)
        self.line.stop_sending()  # messages sent after it would be lost

    def here_go(self, request, answer):
        self.line.go_on()
        self.ask({"op": "go"}, answer)

    def here_sync(self, request, answer):
        self.ask({"op": "sync"}, answer)

    def here_serve(self, request, answer):
        self.ask({"op": "serve"}, answer)

    def here_show_manifest(self, request, answer):
        self.ask({"op": "show_manifest", "content": request["content"]}, answer)


def fresh_entropy():
    """Return 128 random bytes in base64."""
    return binascii.b2a_base64(os.urandom(128), newline=False).decode()
