"""nginx with the configuration of deploy/nginx.conf, in front of a product."""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

from tests.support import CHECKOUT
from tests.support.product import free_port


def program(require) -> str:
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if found is None:
        require("nginx", "nginx is not installed")
    return found


@contextmanager
def nginx(program: str, folder, port_behind: int, change, port: int = 0):
    """The example's configuration, changed, in front of the product; its address."""
    folder.mkdir()
    port = port or free_port()
    text = (CHECKOUT / "deploy/nginx.conf").read_text()
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace("handrail.example.org", "localhost")
    text = change(text.replace("127.0.0.1:8000", f"127.0.0.1:{port_behind}"))
    temp = " ".join(f"{n}_temp_path {folder}/{n};" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\nhttp {{ {temp}\n{text}\n}}"
    )
    process = subprocess.Popen([program, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"])
    try:
        until_it_listens(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def until_it_listens(port: int, address: str = "127.0.0.1"):
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((address, port), timeout=5).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "nginx does not listen"
            time.sleep(0.05)
