"""Open sockets inside other network namespaces and pass them to the parent process.

Runs as a separate program, `python3 -I -S netns_sockets.py FD`, with the standard library only. setns(2) into a user
namespace requires a single-threaded process and cannot be undone, so a forked child handles each request and exits.
FD is a SOCK_SEQPACKET socket. A request is JSON `{pid, start_time, ports}`; the response is `{}` with one listening
socket on 127.0.0.1 for each port (SCM_RIGHTS), or `{"error": message}`. With `family` instead of ports it is one
unconnected TCP socket. The program exits when the peer closes FD.
"""

import array
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NS_GET_USERNS = 0xB701
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
REQUEST_TIMEOUT = 10  # seconds
FIRST_UNPRIVILEGED_PORT = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
NO_IPV6 = "/proc/sys/net/ipv6/conf/lo/disable_ipv6"

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """No socket was opened; the message can be shown."""


def setns(fd, kind):
    if libc.setns(fd, kind) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def start_time(process):
    """Return the start time, in clock ticks after boot, of the process whose /proc folder is the descriptor `process`.

    A pid can be reused; pid and start time together identify one process.
    """
    fd = os.open("stat", os.O_RDONLY, dir_fd=process)
    with open(fd, "rb") as file:
        stat = file.read()
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def enter_network(request):
    """Join the process's network namespace, with the capability to bind privileged ports in it."""
    process = os.open(f"/proc/{int(request['pid'])}", os.O_RDONLY | os.O_DIRECTORY)
    if start_time(process) != request["start_time"]:
        raise Refused("the workspace's first process is gone")
    network = os.open("ns/net", os.O_RDONLY, dir_fd=process)
    ours, theirs = os.stat("/proc/self/ns/net"), os.fstat(network)
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
        raise Refused("the workspace shares this host's network")
    try:
        setns(network, CLONE_NEWNET)
    except PermissionError:
        # Without root: the creator of the user namespace that owns the network namespace has all capabilities in it.
        setns(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
        setns(network, CLONE_NEWNET)


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        query = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, query))[1]
        if not flags & IFF_UP:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def give_loopback_ipv6():
    """Give the loopback its ::1, which docker leaves out of a network without IPv6."""
    try:
        with open(NO_IPV6, "r+") as file:
            if file.read().strip() != "0":
                file.seek(0)
                file.write("0")
    except OSError:
        pass  # this kernel has no IPv6, or /proc/sys is read-only


def reserve_low_ports():
    """Reserve ports below 1024, which docker opens to all users: no program may impersonate Handrail on port 80."""
    try:
        with open(FIRST_UNPRIVILEGED_PORT, "r+") as file:
            if int(file.read()) < 1024:
                file.seek(0)
                file.write("1024")
    except OSError:
        pass  # /proc/sys is read-only here; the port is in use anyway while the proxy listens


def listen(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    return listener


def handle(control, request):
    signal.alarm(REQUEST_TIMEOUT)
    try:
        enter_network(request)
        if "family" in request:
            made = [socket.socket(request["family"], socket.SOCK_STREAM | socket.SOCK_CLOEXEC)]
        else:
            bring_up_loopback()
            give_loopback_ipv6()
            reserve_low_ports()
            made = [listen(int(port)) for port in request["ports"]]
    except Refused as refused:
        control.send(json.dumps({"error": str(refused)}).encode())
    except (FileNotFoundError, ProcessLookupError):
        control.send(json.dumps({"error": "the workspace's first process is gone"}).encode())
    except OSError as error:
        control.send(json.dumps({"error": f"system error: {error.strerror}"}).encode())
    else:
        fds = array.array("i", [each.fileno() for each in made])
        control.sendmsg([b"{}"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def main():
    control = socket.socket(fileno=int(sys.argv[1]))
    while data := control.recv(4096):
        child = os.fork()
        if child == 0:
            try:
                handle(control, json.loads(data))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            control.send(json.dumps({"error": "it took too long"}).encode())


if __name__ == "__main__":
    main()
