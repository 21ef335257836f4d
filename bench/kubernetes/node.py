"""One node: its containerd, its kubelet and its kube-proxy, in a network namespace and a control group of its own."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.kubernetes import image, machine, programs


@dataclass(frozen=True)
class Node:
    """`number` counts from 1. All of its files are in `folder`."""

    name: str
    number: int
    cluster: str
    slot: int
    kubernetes: str
    folder: Path

    @property
    def namespace(self) -> str:
        return f"hrk{self.slot}-{self.number}"

    @property
    def address(self) -> str:
        return machine.address(self.slot, self.number)

    @property
    def group(self) -> str:
        return self.network

    @property
    def network(self) -> str:
        return f"handrail-{self.cluster}-{self.name}"

    @property
    def socket(self) -> Path:
        return self.folder / "c.sock"

    def ctr(self, *words: str) -> list[str]:
        """Return the command of containerd's own client."""
        return [str(programs.program("ctr")), "--address", str(self.socket), "--namespace", "k8s.io", *words]

    def pids(self) -> set[int]:
        """Return every process of its pods, as this machine counts them."""
        return machine.pids_in(self.group)

    def answers(self) -> bool:
        """Return whether its containerd does."""
        return not subprocess.run(self.ctr("version"), capture_output=True, check=False).returncode

    def make(self) -> None:
        for name in ("cni", "kubelet", "containerd", "runc", "runsc"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        machine.make_namespace(self.slot, self.number)
        machine.make_cgroup(self.group)
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps(self._network()))
        (self.folder / "runsc.toml").write_text(f'root = "{self.folder}/runsc"\n')
        (self.folder / "containerd.toml").write_text(self._containerd())

    def parts(self, pki: Path) -> dict[str, list[str]]:
        """Return the commands of the node's programs by their names, in the order in which they are started."""
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet(pki)))
        (self.folder / "proxy.yaml").write_text(json.dumps(self._proxy(pki)))
        kubelet = [
            f"--config={self.folder}/kubelet.yaml",
            f"--kubeconfig={pki}/{self.name}.conf",
            f"--root-dir={self.folder}/kubelet",
            f"--cert-dir={self.folder}/kubelet/pki",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]
        return {
            f"{self.name}/containerd": ["containerd", "--config", f"{self.folder}/containerd.toml"],
            f"{self.name}/kubelet": ["kubelet", *kubelet],
            f"{self.name}/proxy": ["kube-proxy", f"--config={self.folder}/proxy.yaml"],
        }

    def _network(self) -> dict:
        ranges = [[{"subnet": machine.pods_of(self.slot, self.number)}]]
        ipam = {"type": "host-local", "dataDir": f"{self.folder}/ipam", "ranges": ranges}
        bridge = {"type": "bridge", "bridge": machine.PODS, "isGateway": True, "hairpinMode": True}
        bridge["ipam"] = ipam | {"routes": [{"dst": "0.0.0.0/0"}]}
        return {"cniVersion": "1.0.0", "name": self.network, "plugins": [bridge, {"type": "loopback"}]}

    def _containerd(self) -> str:
        # restrict_oom_score_adj: lowering it needs CAP_SYS_RESOURCE, which a container or a small machine may lack.
        # netns_mounts_under_state_dir: else they lie in /run/netns, where a later `ip netns add` makes them busy.
        return f"""version = 3
root = "{self.folder}/containerd/root"
state = "{self.folder}/containerd/state"
[grpc]
  address = "{self.socket}"
[ttrpc]
  address = "{self.socket}.ttrpc"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{image.PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{self.folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "{programs.program("runc")}"
        Root = "{self.folder}/runc"
        SystemdCgroup = false
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
      runtime_type = "io.containerd.runsc.v1"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc.options]
        TypeUrl = "io.containerd.runsc.v1.options"
        ConfigPath = "{self.folder}/runsc.toml"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_port = "0"
"""

    def _kubelet(self, pki: Path) -> dict:
        # failCgroupV1: this also runs where control groups are those of version 1, as long as a kubelet takes them.
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.group}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "enforceNodeAllocatable": ["pods"],
            "address": self.address,
            "readOnlyPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pki}/{self.name}.crt",
            "tlsPrivateKeyFile": f"{pki}/{self.name}.key",
            "clusterDomain": "cluster.local",
            "imageMinimumGCAge": "240h",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "nodeStatusUpdateFrequency": "3s",
            "volumePluginDir": f"{self.folder}/volumeplugins",
            "podLogsDir": f"{self.folder}/podlogs",
            "systemReserved": {"memory": "1Gi"},
            "makeIPTablesUtilChains": False,
        }

    def _proxy(self, pki: Path) -> dict:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": f"{pki}/{self.name}-proxy.conf"},
            "hostnameOverride": self.name,
            "mode": "iptables",
            "clusterCIDR": "10.78.0.0/16",
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
