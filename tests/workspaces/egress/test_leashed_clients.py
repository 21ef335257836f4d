"""Real clients with a stand-in, in a sandbox and in a container: the real value is put in, and none ever has it."""

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from tests.workspaces.egress.api_desk import agent, api, environment, lead, product, workspace
from tests.workspaces.egress.api_host import HOST, Api
from tests.workspaces.egress.programs import put_program

__all__ = ["agent", "api", "environment", "lead", "product", "workspace"]  # fixtures

REAL = "ghp_RealRealRealRealRealRealReal1234"
BEARER = '"Bearer " + process.env.GITHUB_TOKEN'
CARGO = (
    '[registries.acme]\nindex = "sparse+{at}/repos/acme/index/"\n'
    '[registry]\nglobal-credential-providers = ["cargo:token"]\n'
)
PACKAGE = (
    "mkdir -p .cargo src && cp file .cargo/config.toml && touch src/lib.rs && "
    'export CARGO_REGISTRIES_ACME_TOKEN="Bearer $GITHUB_TOKEN" && printf \'[package]\\nname = "right"\\n'
    'version = "0.1.0"\\nlicense = "MIT"\\ndescription = "none"\\n\' > Cargo.toml && '
)
NPM = "//{host}/repos/acme/npm/:_authToken=${{GITHUB_TOKEN}}\nregistry={at}/repos/acme/npm/\n"
# Node's fetch reads the variables of the proxy from 22.21 and 24 on.
NODE = "node -e 'process.exit(process.allowedNodeEnvironmentFlags.has(\"--use-env-proxy\") ? 0 : 1)'"


@dataclass(frozen=True)
class Client:
    """What a client runs in a folder with `file`, and the path that it asks for. `at` is https://HOST:PORT."""

    command: str
    path: str
    file: str = ""
    needs: str = ""  # a command that succeeds where the client is there; "": its first word is a program
    method: str = "GET"


CLIENTS = {
    "curl": Client('curl -sSf -H "Authorization: Bearer $GITHUB_TOKEN" {at}/repos/acme/curl', "/repos/acme/curl"),
    "git": Client('git clone -q "https://me:$GITHUB_TOKEN@{host}/git/shop.git" cloned', "/git/"),
    "python": Client(
        "python3 file",
        "/repos/acme/python",
        "import os, urllib.request as u\n"
        "print(u.urlopen(u.Request('{at}/repos/acme/python', "
        "headers={{'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']}})).read())\n",
    ),
    "requests": Client(
        "python3 file",
        "/repos/acme/requests",
        "import os, requests\nprint(requests.get('{at}/repos/acme/requests', "
        "headers={{'Authorization': 'token ' + os.environ['GITHUB_TOKEN']}}).text)\n",
        needs="python3 -c 'import requests'",
    ),
    "node": Client(
        "node file",
        "/repos/acme/node",
        f"fetch('{{at}}/repos/acme/node', {{{{headers: {{{{Authorization: {BEARER}}}}}}}}})"
        ".then(answer => answer.text()).then(console.log)\n",
        needs=NODE,
    ),
    "go": Client("go-client {at}/repos/acme/go", "/repos/acme/go"),
    "java": Client(
        "cp file Main.java && java Main.java",
        "/repos/acme/java",
        "import java.net.URI; import java.net.http.*;\npublic class Main {{ public static void main(String[] a) throws "
        'Exception {{\nvar r = HttpRequest.newBuilder(URI.create("{at}/repos/acme/java")).header("Authorization", '
        '"Bearer " + System.getenv("GITHUB_TOKEN")).build();\nSystem.out.println(HttpClient.newHttpClient().send(r, '
        "HttpResponse.BodyHandlers.ofString()).body()); }} }}\n",
        needs="command -v java",
    ),
    "npm": Client("cp file .npmrc && npm view left version", "/repos/acme/npm/left", NPM, needs="command -v npm"),
    "npm publish": Client(
        """cp file .npmrc && echo '{{"name": "mine", "version": "1.0.0"}}' > package.json && npm publish""",
        "/repos/acme/npm/mine",
        NPM,
        "command -v npm",
        "PUT",
    ),
    "cargo": Client(
        f'{PACKAGE}printf \'[dependencies]\\nleft = {{{{ version = "1", registry = "acme" }}}}\\n\' >> Cargo.toml && '
        "cargo generate-lockfile && cat Cargo.lock",
        "/repos/acme/index/le/ft/left",
        CARGO,
        needs="cargo --version",
    ),
    "cargo search": Client(
        f"{PACKAGE}cargo search left --registry acme", "/repos/acme/api/v1/crates?", CARGO, needs="cargo --version"
    ),
    "cargo publish": Client(
        f"{PACKAGE}cargo publish --no-verify --registry acme",
        "/repos/acme/api/v1/crates/new",
        CARGO,
        "cargo --version",
        "PUT",
    ),
    "pip": Client(
        'pip3 download --no-deps --retries 0 -q -i "https://me:$GITHUB_TOKEN@{host}/repos/acme/simple" left; true',
        "/repos/acme/simple/",
    ),
}
GO = """package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    r, _ := http.NewRequest("GET", os.Args[1], nil)
    r.Header.Set("Authorization", "Bearer " + os.Getenv("GITHUB_TOKEN"))
    a, e := http.DefaultClient.Do(r)
    if e != nil { panic(e) }
    b, _ := io.ReadAll(a.Body)
    fmt.Println(string(b))
}
"""


def fill_registries(api):
    """Have the API serve a package for npm and one for cargo; nothing else was published there."""
    at = f"https://{HOST}:{api.port}/repos/acme"
    left = {"name": "left", "version": "1.2.3", "dist": {"tarball": f"{at}/npm/left.tgz"}}
    crate = {"name": "left", "vers": "1.2.3", "deps": [], "cksum": "0" * 64, "features": {}, "yanked": False}
    files = {
        "/npm/left": {"name": "left", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": left}},
        "/npm/mine": None,
        "/index/config.json": {"dl": f"{at}/crates", "api": at, "auth-required": True},
        "/index/le/ft/left": crate,
        "/index/ri/gh/right": None,
        "/api/v1/crates?q=left&per_page=10": {
            "crates": [{"name": "left", "max_version": "1.2.3", "description": "none"}],
            "meta": {"total": 1},
        },
    }
    Api.files = {f"/repos/acme{path}": content and json.dumps(content).encode() for path, content in files.items()}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Return {name: file} of programs that run in any image: cargo, Go's client, and the Node of HANDRAIL_TEST_NODE."""
    found = {"node": node} if (node := os.environ.get("HANDRAIL_TEST_NODE")) else {}
    if shutil.which("rustup"):  # whose own cargo only starts another one
        which = subprocess.run(["rustup", "which", "cargo"], capture_output=True, text=True)
        found |= {"cargo": which.stdout.strip()} if which.returncode == 0 else {}
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")  # where Go's own archive puts it
    if go is None:
        return found
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(GO)
    env = os.environ | {"CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": "-ldflags=-s"}
    subprocess.run([go, "build", "-o", "go-client", "main.go"], cwd=folder, env=env, check=True)
    return found | {"go-client": folder / "go-client"}


@pytest.fixture(scope="module", params=["sandbox", "docker"])
def key(request, product, lead, agent, api, environment, workspace, programs):
    fill_registries(api)
    name = environment(f"leashed-{request.param}", request.param)
    hosts = [{"host": f"{HOST}:{api.port}", "paths": ["/repos/acme/*", "/git/*"], "methods": ["READ", "PUT"]}]
    wish = {"value": REAL, "hosts": hosts, "variable": "GITHUB_TOKEN", "environments": [name]}
    lead.call("PUT", f"/credentials/{name}", wish)
    made = workspace(name, request.param)
    for program, file in programs.items():
        put_program(product, agent, made, file, program)
    yield made
    Api.files = {}


def value_of(field: str) -> str:
    """Return the credential that an Authorization field shows."""
    scheme, _, shown = field.partition(" ")
    return base64.b64decode(shown).decode().partition(":")[2] if scheme == "Basic" else shown


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_works_and_never_has_the_value(agent, key, api, name):
    client = CLIENTS[name]
    path = 'export PATH="$HOME/.local/bin:$PATH"; '
    there = client.needs or f"command -v {client.command.split()[0]}"
    if agent.run(key, f"{path}({there}) >/dev/null 2>&1 && echo yes || echo no") != b"yes\n":
        pytest.skip(f"{name} is not installed there, or too old")
    host = f"{HOST}:{api.port}"
    named = {"host": host, "at": f"https://{host}"}
    file = f"{path}mkdir '{name}' && cd '{name}' && cat > file <<'E'\n{client.file.format(**named)}E\n"
    begun = len(Api.got)
    heard = agent.run(key, file + client.command.format(**named))
    asked = Api.got[begun:]
    shown = [field for method, path, field, _ in asked if (method, path.startswith(client.path)) == (client.method, 1)]
    shown = list(filter(None, shown))  # git asks without it first
    assert {value_of(field) for field in shown} == {REAL}, (asked, heard)
    assert REAL.encode() not in heard


def test_the_value_is_in_no_file_process_record_page_or_backup(agent, lead, key, product, tmp_path):
    agent.post(f"/workspaces/{key}/snapshots", {}, expect=None)
    agent.settled(key)
    inside = agent.run(
        key,
        f"grep -rlaF {REAL[4:]!r} /workspace /etc/handrail /tmp $HOME 2>/dev/null; env; "
        "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true",
    )
    assert REAL.encode() not in inside
    assert b"/workspace/" not in inside.split(b"=")[0]
    found = subprocess.run(["grep", "-rlaF", REAL, str(product.home)], capture_output=True, text=True)
    assert found.stdout == ""
    assert REAL not in product.log
    for path in (
        f"/workspaces/{key}",
        f"/workspaces/{key}/network",
        f"/workspaces/{key}/events",
        "/credentials",
        "/log",
    ):
        assert REAL not in lead.get(path, expect=None).text
    backup = tmp_path / "backup"
    product.manage("backup", str(backup))
    files = [file for file in backup.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if REAL.encode() in file.read_bytes()]
