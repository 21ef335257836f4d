"""The bridge of a pod: `remote/linked_bridge.py` over mutual TLS, with the ports of the pod's files.

Its config has beside what each bridge needs: the pod's address, the two certificates and the runner's key, and the
listening sockets of the files. Only the runner, which can ask the cluster, knows whether the pod is gone, and ends the
bridge.

Operation beside those of every bridge: `serve`, which a tree asks for after it has connected to its port.
"""

import os
import selectors
import socket
import ssl

import linked_bridge
from link import look_after
from mux import Stream

CONNECT_S = 5.0


class Bridge(linked_bridge.Bridge):
    """The event loop between clients on the host and the keeper of a pod."""

    HERE_ONLY = (*linked_bridge.Bridge.HERE_ONLY, "serve")

    def __init__(self, listener, line, link, config):
        super().__init__(listener, line, link, config)
        for folder, fd in config["trees"].items():
            self.selector.register(fd, selectors.EVENT_READ, self.taker(socket.socket(fileno=fd), folder))

    def taker(self, listener, folder):
        """Return what connects a client of a folder's port with a server of that folder in the pod."""

        def take(_mask):
            sock, _ = listener.accept()
            stream = next(self.line.numbers)

            def served(said):
                if "error" in said:
                    sock.close()
                else:
                    Stream(self.line, stream, sock.detach(), reads=True, writes=True, half=True)

            self.ask({"op": "serve", "stream": stream, "folder": folder}, served)

        return take

    def here_serve(self, request, answer):
        answer({})


class Connector(linked_bridge.Connector):
    """Connects the link to the pod, again after each cut."""

    def __init__(self, link, config):
        super().__init__(link, config)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.check_hostname = False  # the one certificate that is taken names this pod alone
        self.context.load_verify_locations(cadata=config["keeper"])
        with in_memory(config["certificate"] + config["key"]) as path:
            self.context.load_cert_chain(path)

    def reach(self):
        sock = socket.create_connection(tuple(self.config["address"]), timeout=CONNECT_S)
        try:
            look_after(sock)
            sock.settimeout(linked_bridge.SHAKE_S)
            return self.context.wrap_socket(sock)
        except BaseException:
            sock.close()
            raise


class in_memory:
    """`with in_memory(text) as path`: a file that only this process has."""

    def __init__(self, text):
        self.fd = os.memfd_create("handrail", os.MFD_CLOEXEC)
        os.write(self.fd, text.encode())

    def __enter__(self):
        return f"/proc/self/fd/{self.fd}"

    def __exit__(self, *_):
        os.close(self.fd)


if __name__ == "__main__":
    linked_bridge.main(Bridge, Connector)
