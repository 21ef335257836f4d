"""AAIS's own conformance tests of a backend, at a running Handrail. Prints {passed, skipped, failed} as JSON."""

import json
import os
import uuid

from aais.testing import BackendConformance, run_backend_conformance

from handrail_client import Connection, Handrail
from handrail_client.aais import HandrailBackend


def opened(url: str, token: str, name: str) -> HandrailBackend:
    return HandrailBackend(Handrail(Connection(url, token)), name, lock_timeout=120)  # on a slow machine too


class Suite(BackendConformance):
    names: dict[int, str] = {}

    def make_backend(self):
        return self._named(f"conformance-{uuid.uuid4().hex}")

    def reopen_backend(self, backend):
        return self._named(self.names[id(backend)])

    def subprocess_backend_factory(self, backend):
        return opened, (os.environ["HANDRAIL_URL"], os.environ["HANDRAIL_TOKEN"], self.names[id(backend)])

    def corrupt_backend(self, backend, raw: bytes):
        with backend.transaction() as held:
            held.save({})
            held.body["state"] = raw.decode()

    def _named(self, name: str) -> HandrailBackend:
        made = opened(os.environ["HANDRAIL_URL"], os.environ["HANDRAIL_TOKEN"], name)
        self.add_cleanup(lambda: made)  # keeps it, and so its id
        self.names[id(made)] = name
        return made


if __name__ == "__main__":
    report = run_backend_conformance(Suite(), raise_on_failure=False)
    print(json.dumps({"passed": report.passed, "skipped": report.skipped, "failed": report.failed}))
