"""Listeners on this host's loopback that count who reaches them."""

import select
import socket
import threading


class Listeners:
    """One port by TCP and UDP, on IPv4 and IPv6, and two abstract sockets with the port in their names."""

    def __init__(self):
        self.reached: list[str] = []
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", self.port))
        stream, packets = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        stream.bind(f"\0handrail-canary-{self.port}")
        stream.listen()
        packets.bind(f"\0handrail-canary-packets-{self.port}")
        self._named = {tcp: "TCP", udp: "UDP", stream: "abstract socket", packets: "abstract datagrams"}
        if socket.has_ipv6:
            self._named[socket.create_server(("::1", self.port), family=socket.AF_INET6)] = "TCP over IPv6"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while not self._ended.is_set():
            for ready in select.select(list(self._named), [], [], 0.05)[0]:
                if ready.type == socket.SOCK_STREAM:
                    ready.accept()[0].close()
                else:
                    ready.recv(64)
                self.reached.append(self._named[ready])

    def close(self):
        self._ended.set()
        self._thread.join()
        for listening in self._named:
            listening.close()
