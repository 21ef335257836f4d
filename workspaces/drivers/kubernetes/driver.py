"""Workspaces as pods of a Kubernetes cluster, reached by this host over mutual TLS.

A pod is a guest without QEMU: `remote/` has what both share. Files beside those of local.py:

HOME/runs/RUN_ID/pod.json        where its pod is: {installation, namespace, name, uid, node, home}
HOME/runs/RUN_ID/bringing        that its files are not in the pod yet; locked while somebody brings them
HOME/runs/RUN_ID/state           what the bridge sees of it: {up, at, terminating}
HOME/runs/RUN_ID/ended           why the cluster ended it, in words
RUNTIME/RUN_ID.tree, .home       sockets of the servers of its files
RUNTIME/RUN_ID.ports/            sockets for its programs' connections to 127.0.0.1:3128 and :80
FOLDER.pod/                      marks beside a folder whose files are in the pod (files.py)
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import is_locked, take_lock

from ..base import Address, BackendLost, DriverError, EndReason, Layer, Probe, RunRecord, RunSpec
from ..capabilities import TABLE
from ..init_client import InitClient, InitRefused
from ..local import lead_of
from ..remote.bridging import PORTS
from ..remote.tree import forget
from ..sandbox.driver import own
from . import certificates, claims, files, states, template
from .bridged import FOLDERS
from .cluster import Cluster
from .looked_after import LookedAfter, inside
from .namespaces import Namespaces
from .pods import Pods, make_source
from .probing import Prober

BRINGING = "bringing"  # a mark in the Run's folder while its files are brought into the pod
SILENT_S = 20.0  # without a connection, after which a pod counts as out of reach

logger = logging.getLogger("handrail.runner")


class KubernetesDriver(LookedAfter):
    name = "kubernetes"
    unit = "pod"
    capabilities = TABLE[name]
    default_image = "docker.io/handrail/base:bookworm"
    start_s: ClassVar[float] = 120.0
    hello_s: ClassVar[float] = 2.0

    def __init__(self, home, runtime, options=None):
        super().__init__(home, runtime, options)
        namespace, _, context = (self.options.get("at") or "").partition("@")
        self.cluster = Cluster(namespace, context)
        self.namespaces = Namespaces(self.cluster, shared=self.options.get("namespaces") == "shared")
        self.prober = Prober(self.cluster, self.home / "kubernetes", self.default_image)
        source = make_source(self.options.get("source") or "pods", self.cluster)
        installation = hashlib.sha256(str(self.home).encode()).hexdigest()[:16]
        self.pods = Pods(self.cluster, source, self.prober, installation=installation, image=self.default_image)
        self._rescues = {}  # run id: its lock

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def end_programs(self, record: RunRecord, *, grace_s: float = 5.0) -> None:
        await self._ask(record, "quiet", timeout_s=grace_s + 15.0, grace_s=grace_s)

    async def find_image(self, reference: str) -> str:
        return reference  # its nodes pull it, or say at the start that they cannot

    async def find_layer(self, name: str) -> None:
        return None

    async def keep_layer(self, record: RunRecord, layer: Layer, *, inspect=None) -> Layer:
        return layer  # what setup leaves outside /workspace ends with its pod

    async def remove_volumes(self, workspace_id: str, team: str, *, everywhere: bool) -> None:
        host = "" if everywhere else claims.host_of(self.home)
        await asyncio.to_thread(self._remove_volumes, workspace_id, team, host)

    async def how_it_crashed(self, record: RunRecord) -> str:
        return await asyncio.to_thread(self._how_it_crashed, record)

    def lives(self, record: RunRecord) -> bool:
        if not super()._alive(record):
            return False
        seen = self._state(record.run_id)
        is_whole = not (self._folder(record.run_id) / BRINGING).exists()
        return is_whole and bool(seen.get("up")) and not seen.get("terminating")

    def lacks_files(self, spec: RunSpec) -> bool:
        return super().lacks_files(spec) or files.are_away(spec.workspace)

    # Before a start

    def _probe(self) -> Probe:
        if not self.cluster.namespace:
            words = "No cluster is named."
            what = "Name a namespace for workspaces: HANDRAIL_KUBERNETES=NAMESPACE or NAMESPACE@CONTEXT."
            return Probe(False, words, what)
        if (not_warm := self._why_not_warm()) is not None:
            return not_warm
        found = self.prober.probe()
        return replace(found, notes=(*found.notes, self.namespaces.note())) if found.available else found

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder in (spec.workspace, spec.home):
            own(folder, spec.uid)
            if files.are_away(folder) and self._read(files.run_of(folder)) is None:
                files.forget(folder)  # of a Run that is over: who prepares the folder again has filled it

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A pod needs a folder for the agent's home.")

    # Starting

    def _address(self, spec: RunSpec) -> Address:
        oom_file = self._folder(spec.run_id) / "oom"
        oom_file.write_text("oom_kill 0\n")
        return Address(socket="", oom_file=str(oom_file), env=template.environment(spec), shell="/bin/bash")

    def _host_limits(self, spec: RunSpec):
        return replace(spec.limits, memory=None, cpus=None, pids=None, disk=None)  # the bridge's own are this host's

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset) -> frozenset:
        asked = {name for name in ("memory", "cpus", "disk", "pids") if getattr(spec.limits, name) is not None}
        return frozenset(asked & set(self.prober.facts(spec.runtime_class).get("limits", ())))

    def _launch(self, spec: RunSpec, folder: Path, lock: int) -> RunRecord:
        try:
            with self._bringing(folder):
                return super()._launch(spec, folder, lock)
        except BackendLost:
            raise  # what is there is not known; a later call finds out
        except DriverError:
            if (record := self._read(spec.run_id)) is not None:
                self._forget(record)
            raise

    @contextlib.contextmanager
    def _bringing(self, folder: Path):
        """Mark a Run whose pod has not all of its files yet. The lock on the mark says that somebody brings them."""
        lock = take_lock(folder / BRINGING, wait=5.0)
        try:
            yield
            (folder / BRINGING).unlink()
        finally:
            os.close(lock)

    def _is_half_made(self, record: RunRecord) -> bool:
        """Return whether the pod lacks files that nobody brings any more: its runner was killed, or had no disk."""
        mark = self._folder(record.run_id) / BRINGING
        return mark.exists() and not is_locked(mark) and mark.exists()  # it may have been done meanwhile

    def _join(self, run_id: str) -> RunRecord:
        record, deadline = super()._join(run_id), time.monotonic() + self.start_s
        while (self._folder(run_id) / BRINGING).exists():
            if self._is_half_made(record) or time.monotonic() > deadline:
                raise DriverError("The Run is being started by somebody else and does not get its files.")
            time.sleep(0.1)
        return record

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str]) -> dict:
        certificate, key = certificates.pair(f"runner of {spec.run_id}")
        keeper = certificates.pair(f"keeper of {spec.run_id}")
        where = {"installation": self.pods.installation, "namespace": self.namespaces.keep(spec.team)}
        known = where | {"home": str(spec.home)}
        (folder / "pod.json").write_text(json.dumps(known))  # before there is a pod: who takes it away looks there
        pod = self._pod_for(spec, template.given(spec, inside(), keeper, certificate))
        self._keep(spec, folder, known, pod)
        config = {
            "address": (pod.status.podIP, template.KEEPER_PORT),
            "run": spec.run_id,
            "lead": list(lead_of(spec)),
            "certificate": certificate,
            "key": key,
            "keeper": keeper[0],
            "pids": spec.limits.pids if "pids" in self._limits_in_force(spec, frozenset()) else None,
            "names": PORTS,
        }
        self._write_config(folder, config)
        return self._bridge(spec.run_id, folder, config, init_args)

    def _keep(self, spec: RunSpec, folder: Path, known: dict, pod) -> None:
        """Write down where the pod is."""
        about = {
            "name": self.pods.name_of(spec.run_id),
            "uid": pod.metadata.uid,
            "node": pod.spec.nodeName,
            "runtime_class": spec.runtime_class,
        }
        replace_file(folder / "pod.json", json.dumps(known | about).encode())

    def _pods_of(self, run_id: str) -> Pods:
        """Return the pods of the namespace that a Run's pod is in; of the configured one for a Run of before."""
        known = self._known(run_id)
        return self.pods.within(known.get("namespace") or self.cluster.namespace, known.get("installation"))

    def _await_init(self, record: RunRecord, launcher, spec: RunSpec, **how) -> RunRecord:
        began = looked = time.monotonic()

        def may_come() -> bool:
            nonlocal looked
            if launcher.poll() is not None:
                return False
            if time.monotonic() - looked > 1.0:
                looked = time.monotonic()
                pods = self._pods_of(record.run_id)
                pod = pods.find(record.run_id)
                if pod is None:
                    raise DriverError("The pod was deleted by somebody else before it was up.")
                pods.refuse_hopeless(pod, looked - began, pods.patience_s)
            return True

        try:
            record = self._greeted(record, may_come)
            for name, folder in self._folders(record):
                files.put(folder, self._tree_of(record, name), record.run_id, (inside(), inside()))
        except BaseException:  # also of a disk that is full: a pod without its files must not go on
            self._kill(record)
            self._forget(record)
            raise
        return record

    def _greeted(self, record: RunRecord, may_come) -> RunRecord:
        hello = self._hello(record, may_come)
        if hello is None:
            log = (self._folder(record.run_id) / "log").read_text(errors="replace")
            raise DriverError(self._explain(log))
        shell = hello["shell"]
        record = replace(
            record, address=replace(record.address, shell=shell, env=record.address.env | {"SHELL": shell})
        )
        self._write(record)
        return record

    def _explain(self, log: str) -> str:
        last = (log.strip().splitlines() or ["it said nothing"])[-1]
        return f"The pod's keeper does not answer: {last[:300]}"

    # Life and end

    def _pod(self, record: RunRecord):
        """Return the Run's own pod as it is now; None if it is gone, or another has its name."""
        pod = self._pods_of(record.run_id).find(record.run_id)
        known = self._known(record.run_id)
        return pod if pod is not None and known.get("uid") in (None, pod.metadata.uid) else None

    def _alive(self, record: RunRecord) -> bool:
        if not super()._alive(record):
            return False
        if self._is_half_made(record):
            self._kill(record)
            self._sweep(record)
            return False
        if self.lives(record):
            return True
        seen = self._state(record.run_id)
        if not seen and record.pid is None:
            return True  # it is being started
        pod = self._pod(record)
        if pod is None or states.is_over(pod):
            self._kill(record)
            return False
        if states.is_going(pod) and not record.stopping:
            return self._rescue(record, states.why_it_goes(pod))
        if not seen.get("up") and time.time() - seen.get("at", time.time()) > SILENT_S:
            node = f"Its pod on node {pod.spec.nodeName} does not answer; the cluster calls it {pod.status.phase}."
            raise DriverError(node)
        return True

    def _rescue(self, record: RunRecord, why: str) -> bool:
        """Fetch the files of a pod that the cluster ends, within its grace, then end it. Return whether it lives on."""
        with self._rescues.setdefault(record.run_id, threading.Lock()):
            if not super()._alive(record):
                return False
            logger.warning("the pod of run %s is ended by the cluster: %s", record.run_id, why)
            try:
                self._fetch(record, grace_s=5.0)
                words = f"{why[0].upper()}{why[1:]}; its files were fetched before."
            except DriverError as error:
                words = f"{why[0].upper()}{why[1:]}, and its files were not fetched in time: {error}"
            (self._folder(record.run_id) / "ended").write_text(words)
            self._kill(record)
            self._pods_of(record.run_id).delete(record.run_id)
            return False

    def _why(self, record: RunRecord) -> EndReason:
        pod = self._pod(record)
        if pod is not None and states.out_of_memory(pod) and states.is_over(pod):
            return EndReason.OUT_OF_MEMORY
        if (self._folder(record.run_id) / "ended").exists():
            return EndReason.CRASHED
        return EndReason.REMOVED if pod is None else super()._why(record)

    def _how_it_crashed(self, record: RunRecord) -> str:
        with contextlib.suppress(OSError):
            return (self._folder(record.run_id) / "ended").read_text()
        pod = self._pod(record)
        return states.how_it_ended(pod) if pod is not None and states.is_over(pod) else ""

    def _stop(self, record: RunRecord, grace_s: float) -> None:
        """Fetch the files, end the init, then the pod."""
        record = replace(self._read(record.run_id) or record, stopping=True)
        if self._read(record.run_id) is not None:
            self._write(record)
        try:
            self._fetch(record, grace_s)
        except DriverError as error:
            if not self._is_lost(record):
                raise DriverError(f"{error} Its pod goes on until they are.") from error
        if super()._alive(record):
            super()._stop(record, 0.0)
        self._sweep(record)

    def _is_lost(self, record: RunRecord) -> bool:
        """Return whether the pod is gone with its files."""
        pod = self._pod(record)
        return pod is None or states.is_over(pod)

    def _fetch(self, record: RunRecord, grace_s: float) -> None:
        """End the programs and bring the files back; over a new bridge, if the Run's own is gone or hangs."""
        if not any(files.is_away_with(folder, record.run_id) for _name, folder in self._known_folders(record)):
            return
        if not super()._alive(record) or not self._answers(record):
            if self._is_lost(record):
                return
            self._kill(record)
            self._revive(record)
        with contextlib.suppress(InitRefused), InitClient(record.address.socket, lead=record.address.lead) as init:
            init.request("quiet", timeout_s=grace_s + 15.0, grace_s=grace_s)
        owner = (record.uid, record.uid) if os.getuid() == 0 else None
        for name, folder in self._folders(record):
            files.bring_back(folder, self._tree_of(record, name), record.run_id, owner)

    def _remove_volumes(self, workspace_id: str, team: str, host: str) -> None:
        for namespace in self.namespaces.those_of(team):
            claims.delete(self.cluster.within(namespace), workspace_id, host)

    def _sweep(self, record: RunRecord) -> None:
        """Delete the pod, which ends what still runs in it."""
        self._pods_of(record.run_id).delete(record.run_id)

    def _forget(self, record: RunRecord) -> None:
        self._pods_of(record.run_id).forget(record.run_id)
        self._forget_here(record)

    def _forget_here(self, record: RunRecord) -> None:
        for part in FOLDERS:
            forget(self._socket(record.run_id, part))
            self._socket(record.run_id, part).unlink(missing_ok=True)
        self._rescues.pop(record.run_id, None)
        super()._forget(record)


DRIVER = KubernetesDriver
