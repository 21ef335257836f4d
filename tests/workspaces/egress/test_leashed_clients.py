"""Real clients with a stand-in, in a sandbox and in a container: the real value is put in, and none ever has it."""

import json
import subprocess

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.workspaces.drivers.runs import IMAGES
from tests.workspaces.egress.api_host import HOST, Api, serving, settings_for

REAL = "ghp_RealRealRealRealRealRealReal1234"
# What each client runs, after the file that it needs, by the program that must be there. {at} is https://HOST:PORT.
CLIENTS = {
    "curl": ("curl", "", 'curl -sSf -H "Authorization: Bearer $GITHUB_TOKEN" {at}/repos/acme/curl'),
    "git": ("git", "", 'git clone -q "https://me:$GITHUB_TOKEN@{host}/git/shop.git" cloned'),
    "python": (
        "python3",
        "import os, urllib.request as u\n"
        "print(u.urlopen(u.Request('{at}/repos/acme/python', "
        "headers={{'Authorization': 'Bearer ' + os.environ['GITHUB_TOKEN']}})).read())\n",
        "python3 file.py",
    ),
    "go": (
        "go",
        'package main\nimport ("fmt"; "io"; "net/http"; "os")\nfunc main() {{\n'
        'r, _ := http.NewRequest("GET", "{at}/repos/acme/go", nil)\n'
        'r.Header.Set("Authorization", "Bearer " + os.Getenv("GITHUB_TOKEN"))\n'
        "a, e := http.DefaultClient.Do(r)\nif e != nil {{ panic(e) }}\nb, _ := io.ReadAll(a.Body)\n"
        "fmt.Println(string(b))\n}}\n",
        "cp file.py main.go && GOFLAGS=-mod=mod GO111MODULE=off GOCACHE=$HOME/.cache/go go run main.go",
    ),
    "java": (
        "java",
        "import java.net.URI; import java.net.http.*;\npublic class Main {{ public static void main(String[] a) throws "
        'Exception {{\nvar r = HttpRequest.newBuilder(URI.create("{at}/repos/acme/java")).header("Authorization", '
        '"Bearer " + System.getenv("GITHUB_TOKEN")).build();\nSystem.out.println(HttpClient.newHttpClient().send(r, '
        "HttpResponse.BodyHandlers.ofString()).body()); }} }}\n",
        "cp file.py Main.java && java Main.java",
    ),
    "npm": (
        "npm",
        "//{host}/repos/acme/npm/:_authToken=${{GITHUB_TOKEN}}\nregistry={at}/repos/acme/npm/\n",
        "cp file.py .npmrc && npm view left version",
    ),
    "cargo": (
        "cargo",
        '[registries.acme]\nindex = "sparse+{at}/repos/acme/index/"\n'
        '[registry]\nglobal-credential-providers = ["cargo:token"]\n',
        'mkdir -p .cargo src && cp file.py .cargo/config.toml && touch src/lib.rs && printf \'[package]\\nname = "a"\\n'
        'version = "0.1.0"\\n[dependencies]\\nleft = {{ version = "1", registry = "acme" }}\\n\' > Cargo.toml && '
        'CARGO_REGISTRIES_ACME_TOKEN="Bearer $GITHUB_TOKEN" cargo generate-lockfile && cat Cargo.lock',
    ),
    "pip": (
        "pip3",
        "",
        'pip3 download --no-deps --retries 0 -q -i "https://me:$GITHUB_TOKEN@{host}/repos/acme/simple" left; true',
    ),
    "requests": (
        "python3",
        "import os, requests\nprint(requests.get('{at}/repos/acme/requests', "
        "headers={{'Authorization': 'token ' + os.environ['GITHUB_TOKEN']}}).text)\n",
        "python3 file.py",
    ),
}
PATHS = {"git": "/git/", "npm": "/repos/acme/npm/left", "cargo": "/repos/acme/index/", "pip": "/repos/acme/simple/"}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("api")) as server:
        at = f"https://{HOST}:{server.port}/repos/acme"
        left = {"name": "left", "version": "1.2.3", "dist": {"tarball": f"{at}/npm/left.tgz"}}
        packument = {"name": "left", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": left}}
        crate = {"name": "left", "vers": "1.2.3", "deps": [], "cksum": "0" * 64, "features": {}, "yanked": False}
        config = {"dl": f"{at}/crates", "api": at, "auth-required": True}
        files = {"/npm/left": packument, "/index/config.json": config, "/index/le/ft/left": crate}
        Api.files = {f"/repos/acme{path}": json.dumps(content).encode() for path, content in files.items()}
        yield server
        Api.files = {}


@pytest.fixture(scope="module")
def product(api, tmp_path_factory):
    settings = settings_for(tmp_path_factory.mktemp("names"), api)
    running = Product(tmp_path_factory.mktemp("clients") / "home", **settings)
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture(scope="module")
def lead(product):
    return Desk(product, product.person_token("lia", "lead"))


@pytest.fixture(scope="module")
def agent(product):
    return Desk(product, product.agent_token("leashed"))


@pytest.fixture(scope="module", params=["sandbox", "docker"])
def key(request, lead, agent, api, require):
    drivers = {one["name"]: one for one in agent.get("/drivers").json["drivers"]}
    if not drivers[request.param]["available"]:
        require(request.param, drivers[request.param]["reason"])
    name = f"leashed-{request.param}"
    image = {"image": IMAGES[request.param]} if request.param in IMAGES else {}
    egress = {"agent": [f"{HOST}:{api.port}"]}
    lead.post("/environments", {"name": name, "driver": request.param, "egress": egress, **image})
    hosts = [{"host": f"{HOST}:{api.port}", "paths": ["/repos/acme/*", "/git/*"], "methods": ["READ"]}]
    wish = {"value": REAL, "hosts": hosts, "variable": "GITHUB_TOKEN", "environments": [name]}
    lead.call("PUT", f"/credentials/{name}", wish)
    made = agent.create(environment=name)
    if made["state"] == "failed" and "image" in made["reason"].lower():
        require(request.param, made["reason"])
    assert made["state"] == "ready", made
    return made["key"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_works_and_never_has_the_value(agent, key, api, client):
    program, content, command = CLIENTS[client]
    path = 'export PATH="$PATH:/usr/local/go/bin"; '  # where Go's own archive puts it
    there = f"{path}command -v {program} >/dev/null" + (" && python3 -c 'import requests'" * (client == "requests"))
    if agent.run(key, f"({there}) >/dev/null 2>&1 && echo yes || echo no") != b"yes\n":
        pytest.skip(f"{client} is not installed there")
    host = f"{HOST}:{api.port}"
    named = {"host": host, "at": f"https://{host}"}
    file = f"{path}mkdir -p {client} && cd {client} && cat > file.py <<'E'\n{content.format(**named)}E\n"
    begun = len(Api.got)
    heard = agent.run(key, file + command.format(**named))
    asked = Api.got[begun:]
    shown = [
        value for _, path, value, _ in asked if path.startswith(PATHS.get(client, f"/repos/acme/{client}")) and value
    ]
    assert shown, (asked, heard)
    plain = "".join(shown) if client not in ("git", "pip") else ""
    assert REAL in plain or all(value.startswith("Basic ") for value in shown)
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
