"""The programs of a Kubernetes node, built once from public Go modules into a cache outside the checkout.

Each set of programs is in a folder named after its version and recipe, so that another version, or a changed recipe, is
built beside it and the rest is taken as it is. Go is called with its own settings: its proxy, checksums and caches are
those of the machine.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

KUBERNETES, NEWER = "1.34.4", "1.37.2"  # what is built without --kubernetes, and what is tried beside it
ETCD, CONTAINERD, RUNC = "3.6.16", "2.2.9", "1.3.6"
GVISOR = "0.0.0-20260905035102-160fafc42237"  # of its branch `go`, the one that plain `go build` builds
GO = (1, 26)
NEEDS = {"gcc": "gcc", "pkg-config": "pkg-config"}  # program: Debian's package
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
# The modules that the repository of Kubernetes has beside itself; of a version that lacks one, it is never asked for.
STAGING = """api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap
code-generator component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib
dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy
kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver sample-cli-plugin
sample-controller streaming"""
CRI = "github.com/containerd/containerd/v2"


class CannotBuild(Exception):
    """The machine lacks something; the message is one line that says what."""


@dataclass(frozen=True)
class Recipe:
    """How one set of programs is made: `packages` of the module `module`, as one `go build`."""

    name: str
    version: str
    module: str
    packages: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)  # set by the linker
    replaced: dict[str, str] = field(default_factory=dict)  # {module: version}
    tags: str = ""
    cgo: bool = True
    patched: str = ""  # a file below vendor/
    patches: tuple[tuple[str, str], ...] = ()  # (pattern, replacement) in it; each has to be found once

    @property
    def folder(self) -> Path:
        return cache() / f"{self.name}-{self.version}-{hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    def go_mod(self) -> str:
        tools = "".join(f"\t{package}\n" for package in self.packages)
        replaced = "".join(f"\t{module} => {module} {version}\n" for module, version in self.replaced.items())
        text = f"module engine\n\ngo {GO[0]}.{GO[1]}\n\ntool (\n{tools})\n\nrequire {self.module} v{self.version}\n"
        return text + (f"\nreplace (\n{replaced})\n" if replaced else "")

    def flags(self) -> list[str]:
        variables = " ".join(f"-X {name}={value}" for name, value in self.variables.items())
        tags = ["-tags", self.tags] if self.tags else []
        return ["-trimpath", *tags, "-ldflags", f"-s -w {variables}".strip()]


def cache() -> Path:
    """Return the folder of everything that is built, readable by all users."""
    given = os.environ.get("HANDRAIL_TEST_CACHE") or f"/var/tmp/handrail-tests-{os.getuid()}"
    return Path(given) / "kubernetes"


def recipes(kubernetes: str = KUBERNETES) -> list[Recipe]:
    _major, minor, _patch = kubernetes.split(".")
    base = "k8s.io/component-base/version"
    return [
        Recipe(
            "kubernetes",
            kubernetes,
            "k8s.io/kubernetes",
            tuple(f"k8s.io/kubernetes/cmd/{command}" for command in COMMANDS),
            variables={
                f"{base}.gitVersion": f"v{kubernetes}",
                f"{base}.gitMajor": "1",
                f"{base}.gitMinor": minor,
                f"{base}.gitTreeState": "clean",
                "k8s.io/client-go/pkg/version.gitVersion": f"v{kubernetes}",
            },
            replaced={f"k8s.io/{name}": f"v0{kubernetes[1:]}" for name in STAGING.split()},
        ),
        Recipe("etcd", ETCD, "go.etcd.io/etcd/server/v3", ("go.etcd.io/etcd/server/v3",)),
        Recipe(
            "containerd",
            CONTAINERD,
            CRI,
            tuple(f"{CRI}/cmd/{command}" for command in ("containerd", "containerd-shim-runc-v2", "ctr")),
            variables={f"{CRI}/version.Version": CONTAINERD},
        ),
        Recipe(
            "runc",
            RUNC,
            "github.com/opencontainers/runc",
            ("github.com/opencontainers/runc",),
            variables={"main.version": RUNC},
            tags="seccomp",
        ),
        # Without cgo, since its sandbox starts itself again in an empty root. Its shim asks for an oom_score_adj that
        # needs CAP_SYS_RESOURCE, which a container or a small machine may lack: a refusal is passed over, as for an
        # ordinary user.
        Recipe(
            "gvisor",
            GVISOR,
            "gvisor.dev/gvisor",
            ("gvisor.dev/gvisor/runsc", "gvisor.dev/gvisor/shim"),
            cgo=False,
            patched=f"{CRI}/pkg/sys/oom_linux.go",
            patches=(
                (r"if os\.IsPermission\(err\) && \(.*\) \{", "if os.IsPermission(err) {"),
                (r'\n.*moby/sys/userns"', ""),
            ),
        ),
    ]


NAMES = {"etcd": {"server": "etcd"}, "gvisor": {"shim": "containerd-shim-runsc-v1"}}  # {recipe: {built: wanted}}


def lacks() -> str:
    """Say in one line why nothing can be built here; "" if it can."""
    if shutil.which("go") is None:
        return "there is no Go"
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or tuple(map(int, found.groups())) < GO:
        return f"Go {said.strip().removeprefix('go')} is older than {GO[0]}.{GO[1]}"
    missing = [package for program, package in NEEDS.items() if shutil.which(program) is None]
    if not missing and subprocess.run(["pkg-config", "libseccomp"], capture_output=True, check=False).returncode:
        missing = ["libseccomp-dev"]
    return f"the build needs {' and '.join(missing)}" if missing else ""


def missing(kubernetes: str = KUBERNETES) -> list[Recipe]:
    """Return what is not built yet."""
    return [recipe for recipe in recipes(kubernetes) if not recipe.folder.is_dir()]


def build(kubernetes: str = KUBERNETES, say=print) -> None:
    """Build what is missing; CannotBuild if the machine lacks something."""
    if not missing(kubernetes):
        return
    with _alone():
        for recipe in missing(kubernetes):
            if why := lacks():
                raise CannotBuild(why)
            say(f"Building {recipe.name} {recipe.version}")
            _make(recipe)


def path(kubernetes: str = KUBERNETES) -> str:
    """Return the PATH of a node's programs, before the machine's own."""
    return os.pathsep.join([*(str(recipe.folder) for recipe in recipes(kubernetes)), os.environ["PATH"]])


def program(name: str, kubernetes: str = KUBERNETES) -> Path:
    """Return the path of a built program."""
    return next(each.folder / name for each in recipes(kubernetes) if (each.folder / name).exists())


@contextmanager
def _alone():
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(recipe: Recipe) -> None:
    source = Path(tempfile.mkdtemp(prefix="build-", dir=cache()))
    try:
        (source / "go.mod").write_text(recipe.go_mod())
        _go(recipe, source, "mod", "tidy")
        mode = []
        if recipe.patched:
            _go(recipe, source, "mod", "vendor")
            _patch(source, recipe)
            mode = ["-mod=vendor"]
        made = source / "made"
        made.mkdir()
        _go(recipe, source, "build", *mode, *recipe.flags(), "-o", f"{made}/", *recipe.packages)
        for built, wanted in NAMES.get(recipe.name, {}).items():
            (made / built).rename(made / wanted)
        made.rename(recipe.folder)
    finally:
        shutil.rmtree(source, ignore_errors=True)


def _patch(source: Path, recipe: Recipe) -> None:
    file = source / "vendor" / recipe.patched
    text = file.read_text()
    for pattern, replacement in recipe.patches:
        text, times = re.subn(pattern, replacement, text)
        if times != 1:
            raise CannotBuild(
                f"{recipe.patched} of {recipe.name} {recipe.version} has changed: {pattern} fits {times} times"
            )
    file.write_text(text)


def _go(recipe: Recipe, folder: Path, *words: str) -> None:
    environment = os.environ if recipe.cgo else os.environ | {"CGO_ENABLED": "0"}
    done = subprocess.run(["go", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"`go {words[0]}` of {recipe.name} {recipe.version} failed:\n{done.stderr[-2000:]}")
