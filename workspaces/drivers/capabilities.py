"""What each driver can do, as a table by its name: answered without an instance, without Django and without its code.

Whoever wants to know whether something is possible in a workspace asks for a capability, never for a driver's name. A
new driver is a folder, whose `driver.py` has DRIVER, and an entry here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a driver can do on any host; `Probe` says what it can do on this one."""

    # The strongest it can offer: none | namespace | container | container-gvisor | microvm | microvm-emulated |
    # pod-runc | pod-gvisor | pod-kata
    isolation: str
    freeze: bool  # all programs can be stopped and continued
    memory: bool  # a pause can save the memory of programs
    network: bool  # the network is cut off, or routed through a proxy
    limits: bool  # memory, CPU and process limits, where the host allows setting them
    own_folder: bool = False  # its files are a person's folder: never created, moved, archived or deleted by Handrail
    own_kernel: bool = False  # programs run in a machine of their own, which has a memory and a disk of its own
    host_system: bool = False  # programs see the system's folders of the host, read-only
    isolation_varies: bool = False  # the level depends on the host: `Probe.isolation`
    weaker_without_class: str = ""  # the level of environments that name no runtime class, if it is another
    runtime_classes: bool = False  # an environment names what runs its programs: a RuntimeClass, an OCI runtime
    envelopes: bool = True  # programs can be held to envelopes, where the host can
    elsewhere: bool = False  # programs run on another machine: none of their processes is one of this host
    files_need_run: bool = False  # the files are on a disk of the guest, and are reached only while a Run is up
    images: bool = False  # the root is an image, and what setup installs in it can be kept as a layer
    takes_image: bool = False  # an environment names that image, or a folder to build it from
    agent_programs: bool = False  # agents that the operator installed can be started in it
    shows_manifest: bool = False  # programs can read `RunSpec.manifest`
    shows_snapshots: bool = False  # programs can read `RunSpec.snapshots` at /snapshots/NUMBER
    backend: str = ""  # the service on which Runs depend, as in "Docker engine"

    @property
    def usual_isolation(self) -> str:
        """The level of environments that name no runtime class, where no host has said it."""
        return self.weaker_without_class or self.isolation

    @property
    def measured_disk(self) -> bool:
        """Whether its files are measured from outside, and its programs frozen above the limit of disk."""
        return self.freeze and not self.files_need_run


TABLE = {
    "folder": Capabilities(isolation="none", freeze=False, memory=False, network=False, limits=False, own_folder=True),
    "sandbox": Capabilities(
        isolation="namespace",
        freeze=True,
        memory=False,
        network=True,
        limits=True,
        host_system=True,
        agent_programs=True,
        shows_manifest=True,
        shows_snapshots=True,
    ),
    "docker": Capabilities(
        isolation="container-gvisor",
        weaker_without_class="container",
        freeze=True,
        memory=False,
        network=True,
        limits=True,
        isolation_varies=True,
        envelopes=False,
        runtime_classes=True,
        images=True,
        takes_image=True,
        agent_programs=True,
        shows_manifest=True,
        backend="Docker engine",
    ),
    "microvm": Capabilities(
        isolation="microvm",
        freeze=True,
        memory=True,
        network=True,
        limits=True,
        own_kernel=True,
        isolation_varies=True,
        files_need_run=True,
        images=True,
        shows_manifest=True,
    ),
    "kubernetes": Capabilities(
        isolation="pod-kata",
        freeze=True,
        memory=False,
        network=True,
        limits=True,
        isolation_varies=True,
        files_need_run=True,
        elsewhere=True,
        runtime_classes=True,
        images=True,
        takes_image=True,
        backend="Kubernetes cluster",
    ),
}
DEFAULT = "sandbox"  # the driver of an environment that names none: it needs nothing on the host
UNKNOWN = Capabilities(isolation="none", freeze=False, memory=False, network=False, limits=False)


def of(driver: str) -> Capabilities:
    """Return the capabilities of a driver; UNKNOWN, which has none, for a name that is not in the table."""
    return TABLE.get(driver, UNKNOWN)


def drivers_with(**wanted) -> list[str]:
    """Return the names of the drivers with these capabilities: `drivers_with(own_folder=True)`."""
    return [
        name
        for name, found in TABLE.items()
        if all(getattr(found, capability) == value for capability, value in wanted.items())
    ]
