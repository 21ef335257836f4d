"""`python -m bench.kubernetes build|up|down|load|wall|run|image`: a real Kubernetes on this machine, of Go modules.

    python -m bench.kubernetes build [--kubernetes VERSION]     build its programs once, into a cache
    python -m bench.kubernetes up [--name NAME] [--nodes N]     start it; the last line is the path of its KUBECONFIG
    python -m bench.kubernetes load FILE [--name NAME]          import an image into its nodes
    python -m bench.kubernetes wall up|down [--name NAME]       keep its pods from opening connections, or let them
    python -m bench.kubernetes run [--clusters N] COMMAND...    run a command with clusters that it has alone
    python -m bench.kubernetes down [--name NAME]               end exactly what `up` has started
    python -m bench.kubernetes image --out FILE                 write the image of an environment that names none

Its network plug-in, a bridge, does not enforce NetworkPolicies. A wall on each node, up from the start, stands in for
one: pods open no connection, so the driver of pods takes the cluster. The RuntimeClasses are `runc` and `gvisor`. Each
node has a network namespace and a control group of its own. Building needs Go, gcc, libseccomp-dev and pkg-config, a
cluster root and containernetworking-plugins, an image mmdebstrap.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.kubernetes import image, machine, programs
from bench.kubernetes.cluster import Cluster, folder_of

NAMESPACE = "handrail-tests"  # of the pods of a command with clusters of its own


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, function in (
        ("build", build),
        ("up", up),
        ("down", down),
        ("load", load),
        ("wall", wall),
        ("image", write_image),
    ):
        asked = verbs.add_parser(verb)
        asked.set_defaults(function=function)
        if verb in ("build", "up"):
            asked.add_argument("--kubernetes", metavar="VERSION", default=programs.KUBERNETES)
        if verb in ("up", "down", "load", "wall"):
            asked.add_argument("--name", default="default", help="of this cluster; others can exist beside it")
        if verb == "up":
            asked.add_argument("--nodes", type=int, default=2, choices=range(1, 8))
        if verb == "wall":
            asked.add_argument("state", choices=["up", "down"])
        if verb == "load":
            asked.add_argument("file", type=Path)
        if verb == "image":
            asked.add_argument("--out", type=Path, required=True)
            asked.add_argument("--packages", help=f"in place of those of the base image; {image.SMALL!r} is enough")
    beside = verbs.add_parser("run")
    beside.set_defaults(function=run)
    beside.add_argument("--clusters", type=int, default=1, choices=range(1, 5))
    beside.add_argument("--kubernetes", metavar="VERSION", default=programs.KUBERNETES)
    beside.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    try:
        return asked.function(asked)
    except (programs.CannotBuild, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1


def build(asked) -> int:
    programs.build(asked.kubernetes, _say)
    print(programs.cache())
    return 0


def up(asked) -> int:
    if why := machine.lacks():
        raise RuntimeError(f"No cluster can be started here: {why}.")
    if folder_of(asked.name).exists():
        raise RuntimeError(
            f"{asked.name} is there already: `python -m bench.kubernetes down --name {asked.name}` ends it"
        )
    programs.build(asked.kubernetes, _say)
    cluster = Cluster(asked.name, nodes=asked.nodes, kubernetes=asked.kubernetes)
    try:
        cluster.up(_say)
    except BaseException:
        cluster.down()
        raise
    print(f"kubectl {programs.program('kubectl', asked.kubernetes)}")
    for each in cluster.nodes.values():
        print(f"{each.name}  {each.address}  {' '.join(each.ctr())}")
    print(cluster.kubeconfig)
    return 0


def down(asked) -> int:
    _running(asked.name).down()
    return 0


def load(asked) -> int:
    _running(asked.name).load_image(asked.file)
    return 0


def wall(asked) -> int:
    _running(asked.name).wall(up=asked.state == "up")
    return 0


def run(asked) -> int:
    """Run the command with clusters that are taken away after it; where there can be none, say so in one line.

    It gets HANDRAIL_TEST_KUBERNETES (the names of the clusters), KUBECONFIG (of the first) and the namespace
    HANDRAIL_TEST_KUBERNETES_NAMESPACE, whose pods have to be *restricted*. The image in HANDRAIL_TEST_KUBERNETES_IMAGE
    is on every node.
    """
    if why := (programs.lacks() if programs.missing(asked.kubernetes) else machine.lacks()):
        _say(f"Left out, since there is no Kubernetes here: {why}.")
        return 0
    programs.build(asked.kubernetes, _say)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the clusters are taken away
    names = [f"run-{os.getpid()}-{number}" for number in range(1, asked.clusters + 1)]
    clusters = [Cluster(name, kubernetes=asked.kubernetes) for name in names]
    try:
        for cluster in clusters:
            _set_up(cluster)
        told = {"HANDRAIL_TEST_KUBERNETES": " ".join(names), "HANDRAIL_TEST_KUBERNETES_NAMESPACE": NAMESPACE}
        told |= {"KUBECONFIG": str(clusters[0].kubeconfig)}
        with subprocess.Popen(asked.command, env=os.environ | told) as started:  # its end is waited for in any case
            try:
                return started.wait()
            except BaseException:
                started.terminate()
                raise
    finally:
        for cluster in clusters:
            # The command may have killed parts and started them again: what runs now stands in the folder.
            if (cluster.folder / "state.json").exists():
                Cluster.load(cluster.name).down()


def _set_up(cluster: Cluster) -> None:
    cluster.up()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.create("/api/v1/namespaces", "Namespace", NAMESPACE, labels=labels)
    if archive := os.environ.get("HANDRAIL_TEST_KUBERNETES_IMAGE"):
        cluster.load_image(Path(archive))


def write_image(asked) -> int:
    try:
        name, digest = image.base(asked.out, asked.packages)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"The image was not made: {error}") from error
    print(f"{name}\n{name.rpartition(':')[0]}@{digest}")
    return 0


def _running(name: str) -> Cluster:
    try:
        return Cluster.load(name)
    except FileNotFoundError:
        raise RuntimeError(f"No cluster {name} runs here.") from None


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
