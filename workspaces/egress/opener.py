"""Makes listening sockets inside other network namespaces, and hands them out.

A program of its own, `python3 -I -S opener.py FD`, standard library only: entering a user namespace takes a process
with one thread, and there is no way back out of one, so each request is carried out by a child that then ends. FD is a
SOCK_SEQPACKET socket; a request is JSON `{pid, start_time, ports}`, its answer `{}` with a listening socket for each
port of 127.0.0.1, or `{"error": words}`. It ends when the other side is gone.
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
FIRST_ORDINARY_PORT = "/proc/sys/net/ipv4/ip_unprivileged_port_start"

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """Why no socket was made, in words."""


def setns(fd, kind):
    if libc.setns(fd, kind) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def started(process):
    """The start time of the process whose /proc folder this is; with the pid it names one process for good."""
    fd = os.open("stat", os.O_RDONLY, dir_fd=process)
    with open(fd, "rb") as file:
        stat = file.read()
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def enter(request):
    """Become part of the process's network namespace, with the right to bind low ports in it."""
    process = os.open(f"/proc/{int(request['pid'])}", os.O_RDONLY | os.O_DIRECTORY)
    if started(process) != request["start_time"]:
        raise Refused("the workspace's first process is gone")
    network = os.open("ns/net", os.O_RDONLY, dir_fd=process)
    ours, theirs = os.stat("/proc/self/ns/net"), os.fstat(network)
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
        raise Refused("the workspace shares this host's network")
    try:
        setns(network, CLONE_NEWNET)
    except PermissionError:
        # Without root: whoever made the user namespace that owns the network has every right in it.
        setns(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
        setns(network, CLONE_NEWNET)


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        wanted = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, wanted))[1]
        if not flags & IFF_UP:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def keep_low_ports():
    """No program of the workspace may ever stand in for Handrail on port 80; docker opens low ports to everybody."""
    try:
        with open(FIRST_ORDINARY_PORT, "r+") as file:
            if int(file.read()) < 1024:
                file.seek(0)
                file.write("1024")
    except OSError:
        pass  # /proc/sys is read-only here; while we listen the port is taken anyway


def listen(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    return listener


def carry_out(control, request):
    signal.alarm(10)
    try:
        enter(request)
        bring_up_loopback()
        keep_low_ports()
        listeners = [listen(int(port)) for port in request["ports"]]
    except Refused as refused:
        control.send(json.dumps({"error": str(refused)}).encode())
    except (FileNotFoundError, ProcessLookupError):
        control.send(json.dumps({"error": "the workspace's first process is gone"}).encode())
    except OSError as error:
        control.send(json.dumps({"error": f"the system said: {error.strerror}"}).encode())
    else:
        fds = array.array("i", [listener.fileno() for listener in listeners])
        control.sendmsg([b"{}"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def main():
    control = socket.socket(fileno=int(sys.argv[1]))
    while data := control.recv(4096):
        child = os.fork()
        if child == 0:
            try:
                carry_out(control, json.loads(data))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            control.send(json.dumps({"error": "it took too long"}).encode())


if __name__ == "__main__":
    main()
