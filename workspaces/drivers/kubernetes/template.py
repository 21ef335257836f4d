"""The spec of a Run's pod: what it mounts, what it may, and what it is limited to.

    init container `bring`   makes folders that belong to the pod's user, and hands the keeper its key
    container `work`         the keeper as process 1, and under it every program of the workspace

Both run the environment's image, which has to have /usr/bin/python3, with Handrail's own programs from a ConfigMap. No
secret, no environment variable and no service account token is in it, and nothing that Pod Security *restricted*
refuses.

A pod that waits in a pool has a third container, `wait`, a sidecar that takes what is the Run's own (pod/waiting.py).
"""

import json
from collections.abc import Mapping

from ..base import RunSpec
from ..sandbox.driver import AGENT_ENV, ETC, UID, hostname_of

AT = "/.handrail"
PYTHON = ["/usr/bin/python3", "-I", "-S", "-B", f"{AT}/programs/keeper.pyz"]
GRACE_S = 120  # in which a runner fetches the files of a pod that the cluster ends
MIB = 1 << 20
BRING_MEMORY = 64 * MIB
DEFAULT_DISK = 8 << 30  # bytes of a claim whose environment names no limit
SCRATCH = ("/tmp", "/var/tmp")
WAITING = "workspace"  # host name of a pod of a pool: it was named before its workspace was known
SECURITY = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    # The keeper listens to 127.0.0.1:80 for the programs.
    "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
}
POLICY_LABEL = "handrail.dev/canary"
KEEPER_PORT = 7443
# Of a namespace: its pods reach nobody, and nobody reaches more of them than their keepers.
POLICY_NAME = "handrail-workspaces"
POLICY = {
    "podSelector": {},
    "policyTypes": ["Ingress", "Egress"],
    "egress": [],
    "ingress": [{"ports": [{"protocol": "TCP", "port": KEEPER_PORT}]}],
}
SMALL = {"cpu": "50m", "memory": str(BRING_MEMORY)}


def pod_spec(
    spec: RunSpec, *, uid: int, image: str, programs: str, secret: str, host_users: bool | None, volume: str = ""
) -> dict:
    """Return the spec of the pod of a Run. `volume` names the claim that holds the files; "": an emptyDir does.

    `host_users`: False for a user namespace of its own; None where the cluster has none.
    """
    made = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "hostname": hostname_of(spec.key).lower(),
        "dnsPolicy": "None",  # names are looked up by the runner's proxy alone
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["handrail.internal"]}],
        "securityContext": SECURITY | {"runAsUser": uid, "runAsGroup": uid} | ({"fsGroup": uid} if volume else {}),
        "initContainers": [_container("bring", image, ["bring"], _mounts_of_bring(), SMALL)],
        "containers": [
            _container("work", image, ["keep"], _mounts(spec), _limits(spec)) | {"workingDir": "/workspace"}
        ],
        "volumes": _volumes(spec, programs, secret, volume),
    }
    if host_users is not None:
        made["hostUsers"] = host_users
    if spec.runtime_class:
        made["runtimeClassName"] = spec.runtime_class
    return made


def pool_spec(spec: RunSpec, **how) -> dict:
    """Return the spec of a pod that waits for a Run like this; `how` as for `pod_spec`, `secret` is the pool's."""
    made = pod_spec(spec, **how) | {"hostname": WAITING}
    mounts = [_mount("etc", f"{AT}/etc"), _mount("once", f"{AT}/once")]
    mounts += [_mount(name, f"{AT}/{name}", read_only=True) for name in ("given", "programs")]
    waits = _container("wait", how["image"], ["wait"], mounts, SMALL) | {"restartPolicy": "Always"}
    return made | {"initContainers": [*made["initContainers"], waits]}


def canary_spec(image: str, programs: str, words: list[str], *, runtime_class: str, host_users: bool | None) -> dict:
    """Return the spec of a pod that runs one of Handrail's programs as a workspace's pod would, and mounts no files."""
    made = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "securityContext": SECURITY | {"runAsUser": UID, "runAsGroup": UID},
        "containers": [
            _container("canary", image, words, [_mount("programs", f"{AT}/programs", read_only=True)], SMALL)
        ],
        "volumes": [{"name": "programs", "configMap": {"name": programs}}],
    }
    made |= {"hostUsers": host_users} if host_users is not None else {}
    return made | ({"runtimeClassName": runtime_class} if runtime_class else {})


def _container(name: str, image: str, arguments: list[str], mounts: list[dict], limits: Mapping[str, str]) -> dict:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*PYTHON, *arguments],
        "volumeMounts": mounts,
        "resources": {"limits": dict(limits), "requests": _requests(limits)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _limits(spec: RunSpec) -> dict[str, str]:
    limits = spec.limits
    found = {"memory": str(limits.memory)} if limits.memory else {}
    return found | ({"cpu": f"{round(limits.cpus * 1000)}m"} if limits.cpus else {})


def _requests(limits: Mapping[str, str]) -> dict[str, str]:
    """Return what a node sets aside: the memory in whole, since it cannot be taken back, and some of the processors."""
    return SMALL | ({"memory": limits["memory"]} if "memory" in limits else {})


def _mount(volume: str, path: str, sub: str = "", *, read_only: bool = False) -> dict:
    made = {"name": volume, "mountPath": path} | ({"subPath": sub} if sub else {})
    return made | ({"readOnly": True} if read_only else {})


def _mounts_of_bring() -> list[dict]:
    shared = [_mount(name, f"{AT}/{name}") for name in ("files", "etc", "once")]
    return [*shared, *(_mount(name, f"{AT}/{name}", read_only=True) for name in ("given", "programs"))]


def _mounts(spec: RunSpec) -> list[dict]:
    made = [_mount("files", f"{AT}/files"), _mount("once", f"{AT}/once")]
    made += [_mount("files", "/workspace", "tree"), _mount("files", "/home/agent", "home")]
    made += [_mount("programs", f"{AT}/programs", read_only=True)]
    made += [_mount("scratch", path, path.strip("/").replace("/", "-")) for path in SCRATCH]
    return [*made, *(_mount("etc", f"/etc/{name}", name, read_only=True) for name in _names_in_etc(spec))]


def _names_in_etc(spec: RunSpec) -> list[str]:
    return sorted({path.split("/")[0] for path in etc_files(spec, 0)})


def _volumes(spec: RunSpec, programs: str, secret: str, volume: str) -> list[dict]:
    disk = {"sizeLimit": str(spec.limits.disk)} if spec.limits.disk else {}
    files = {"persistentVolumeClaim": {"claimName": volume}} if volume else {"emptyDir": disk}
    return [
        {"name": "files"} | files,
        {"name": "etc", "emptyDir": {}},
        {"name": "once", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "scratch", "emptyDir": disk},
        {"name": "given", "secret": {"secretName": secret, "defaultMode": 0o444}},
        {"name": "programs", "configMap": {"name": programs}},
    ]


def etc_files(spec: RunSpec, uid: int) -> dict[str, str]:
    """Return {path below /etc: text} of what the pod has there in place of the image's."""
    passwd = ETC["passwd"].replace("agent:x:1000:1000:", f"agent:x:{uid}:{uid}:")
    shell = passwd.rpartition("agent:/home/agent:")[2].splitlines()[0]
    found = {"passwd": passwd.replace(f"/home/agent:{shell}", "/home/agent:/bin/sh")}
    found["group"] = ETC["group"].replace("agent:x:1000:", f"agent:x:{uid}:")
    return found | {path: content.decode() for path, content in spec.system_files.items()}


def given(spec: RunSpec, uid: int, keeper: tuple[str, str], runner: str) -> dict[str, str]:
    """Return the content of the Run's Secret: what `bring` hands on."""
    return {
        "keeper.crt": keeper[0],
        "keeper.key": keeper[1],
        "runner.crt": runner,
        "keeper.json": json.dumps({"run": spec.run_id}),
        "etc.json": json.dumps(etc_files(spec, uid)),
    }


def given_to_pool(spec: RunSpec, uid: int, keeper: tuple[str, str], runner: str) -> dict[str, str]:
    """Return the content of a pool's Secret: its certificates, and what is the same below /etc for every Run."""
    same = {path: text for path, text in etc_files(spec, uid).items() if "/" not in path}
    folders = [name for name in _names_in_etc(spec) if name not in same]
    return {
        "keeper.crt": keeper[0],
        "keeper.key": keeper[1],
        "runner.crt": runner,
        "etc.json": json.dumps(same),
        "folders.json": json.dumps(folders),
    }


def environment(spec: RunSpec) -> dict[str, str]:
    """Return the environment of every program; the init gives it, so that none of it is in the pod's spec."""
    return AGENT_ENV | {"SHELL": "/bin/bash"} | dict(spec.env)
