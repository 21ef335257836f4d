"""A pod lives on without the runner that led it: what the next one needs for that, and how it takes the pod over.

The next one is another host's, or that of the same host, which was started anew.
"""

import asyncio
import json
from dataclasses import replace

from ..base import DriverError, OutOfReach, RunRecord, RunSpec
from ..init_client import InitClient
from ..local import lead_of
from ..processes import boot_id, this_host
from . import files
from .bridged import Bridged

OF_THE_HOST = ("lead", "home")  # what each host says for itself
ABANDON_S = 30.0


class Leading(Bridged):
    """The part of the driver that hands the lead of a Run on. The keeper refuses every lead but the newest."""

    async def what_leads(self, record: RunRecord) -> str:
        return await asyncio.to_thread(self._what_leads, record)

    async def take_over(self, spec: RunSpec, needed: str) -> RunRecord:
        return await asyncio.to_thread(self._take_over, spec, json.loads(needed))

    async def leads(self, record: RunRecord) -> bool:
        return await asyncio.to_thread(super()._alive, record)

    async def let_go(self, record: RunRecord) -> None:
        await asyncio.to_thread(self._let_go, record)

    async def end_unadopted(self, record: RunRecord) -> None:
        await asyncio.to_thread(self._end_unadopted, record)

    def _end_unadopted(self, record: RunRecord) -> None:
        with InitClient(record.address.socket, timeout_s=ABANDON_S, lead=record.address.lead) as init:
            init.request("abandon")

    def _what_leads(self, record: RunRecord) -> str:
        config = json.loads((self._folder(record.run_id) / "config").read_text())
        parts = {"config": config, "pod": self._known(record.run_id)}
        needed = {part: {name: of[name] for name in of.keys() - {*OF_THE_HOST}} for part, of in parts.items()}
        about = {"limits": sorted(record.limits), "image": record.image, "env": dict(record.address.env)}
        return json.dumps(needed | about)

    def _take_over(self, spec: RunSpec, needed: dict) -> RunRecord:
        self._check(spec)
        is_own = files.is_away_with(spec.workspace, spec.run_id)  # so the files in its folder are older
        folder = self._folder(spec.run_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._end_bridge(spec.run_id)  # of an attempt that was cut off
        (folder / "pod.json").write_text(json.dumps(needed["pod"] | {"home": str(spec.home)}))
        self._write_config(folder, needed["config"] | {"lead": lead_of(spec)})
        record = self._record_of(spec, needed)
        self._write(record)
        try:
            if self._is_lost(record):
                raise DriverError("Its pod is gone, and its files with it.")
            self._revive(record)
            record = self._greeted(self._read(spec.run_id), lambda: True)
        except BaseException as error:
            waits = isinstance(error, DriverError) and super()._alive(record) and not self._is_lost(record)
            if is_own:
                self._end_bridge(spec.run_id)
            else:
                self._let_go(record)
            if waits:  # the keeper has not refused its new lead: the files may be reached later
                raise OutOfReach(f"{error} The cluster has not ended it.") from error
            raise
        for _name, place in self._folders(record):
            files.mark_away(place, spec.run_id)
        return record

    def _record_of(self, spec: RunSpec, needed: dict) -> RunRecord:
        # Its programs go on with the variables that fit its files, such as those that name the authorities it trusts.
        where = {"socket": str(self.runtime / spec.run_id), "lead": lead_of(spec), "env": needed["env"]}
        return RunRecord(
            driver=self.name,
            run_id=spec.run_id,
            workspace_id=spec.workspace_id,
            host=this_host(),
            boot_id=boot_id(),
            uid=spec.uid,
            address=replace(self._address(spec), **where),
            tree=str(spec.workspace),
            limits=frozenset(needed["limits"]),
            phase=spec.phase,
            image=needed["image"],
            home=str(self.home),
        )

    def _let_go(self, record: RunRecord) -> None:
        self._end_bridge(record.run_id)
        for _name, place in self._known_folders(record):
            if files.is_away_with(place, record.run_id):
                files.forget(place)
        self._forget_here(record)

    def _end_bridge(self, run_id: str) -> None:
        known = self._read(run_id)
        if known is not None and known.pid is not None:
            self._kill(known)
