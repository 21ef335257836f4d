"""pip and npm in a workspace: from an index that is on the list, with nothing said to them but where it is."""

import base64
import hashlib
import io
import json
import shutil
import tarfile
import zipfile

import pytest

from tests.workspaces.egress.grounds import read_request
from tests.workspaces.egress.test_workspace import rows

WHEEL = "listed_tool-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """A package of one module."""
    about = "listed_tool-1.0.dist-info"
    files = {
        "listed_tool.py": "WORD = 'from the index'\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: listed-tool\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(text)}\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{about}/RECORD", "".join(rows) + f"{about}/RECORD,,\n")
    return packed.getvalue()


def tarball() -> bytes:
    """What npm would have packed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {
            "package.json": json.dumps({"name": "listed-tool", "version": "1.0.0", "main": "index.js"}),
            "index.js": "module.exports = 'from the registry';\n",
        }.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture
def index(serve, name_for):
    """An index of both kinds with one package: (host, port)."""
    host, packed, files = name_for("index"), tarball(), {}

    def talk(sock, got):
        path = read_request(sock, got).split()[1].decode()
        body = files.get(path.partition("?")[0])
        status = "200 OK" if body is not None else "404 Not Found"
        kind = "text/html" if path.startswith("/simple/") else "application/json"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body or b'')}\r\n"
        sock.sendall(f"{head}Connection: close\r\n\r\n".encode() + (body or b""))

    server = serve(talk=talk)
    address = f"http://{host}:{server.port}"
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
    version = {"name": "listed-tool", "version": "1.0.0", "main": "index.js"}
    version |= {"dist": {"tarball": f"{address}/listed-tool/-/listed-tool-1.0.0.tgz", "integrity": integrity}}
    packument = {"name": "listed-tool", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    files |= {
        "/simple/listed-tool/": f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode(),
        f"/files/{WHEEL}": wheel(),
        "/listed-tool": json.dumps(packument).encode(),
        "/listed-tool/-/listed-tool-1.0.0.tgz": packed,
    }
    return host, server.port


# Debian keeps pip out of /usr, but not the wheel from which new environments get theirs.
PIP = "python3 -m pip --version > /dev/null || export PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl); "
PIP += "python3 -m pip install -q --no-cache-dir --disable-pip-version-check --retries 0 --target {0} "
PIP += "--index-url http://{1}:{2}/simple/ --trusted-host {1} listed-tool && "
PIP += "PYTHONPATH={0} python3 -c 'import listed_tool; print(listed_tool.WORD)'"
NPM = "mkdir -p {0} && cd {0} && npm install --silent --no-audit --no-fund --fetch-retries=0 "
NPM += "--registry http://{1}:{2}/ listed-tool && node -p 'require(\"listed-tool\")'"


@pytest.mark.parametrize(
    ("program", "script", "word"), [("pip", PIP, b"from the index\n"), ("npm", NPM, b"from the registry\n")]
)
def test_packages_come_through_the_proxy_and_only_where_the_list_says(
    agent, workspace, index, require, program, script, word
):
    if program == "npm" and shutil.which("npm") is None:
        require("npm", "npm cannot be found")
    host, port = index
    key = workspace(f"({script.format('made', host, port)}) > said", setup=[f"{host}:{port}"])
    assert agent.get(f"/workspaces/{key}/files/said").body.endswith(word)
    # The agent has another list, and it is empty.
    again = agent.post(f"/workspaces/{key}/commands", {"command": script.format("again", host, port)}).json["id"]
    assert agent.finished(again)["exit_status"] != 0
    assert {row["host"] for row in rows(agent, key, "blocked", phase="agent")} == {host}
