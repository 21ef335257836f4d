"""The product of a day on several hosts: the cluster of bench/cluster, used as the product of one host is."""

import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from bench.cluster.hosts import Cluster, Host
from tests.support.product import Product

SILENT_S = 15  # without a heartbeat; a runner writes one every ten seconds
HOSTS = "select host, lost_at is null and heartbeat_at > now() - interval '{} s' as answers from workspaces_runner"


class SeveralHosts(Product):
    """`cluster` behind its nginx. `environment` is added to that of each host."""

    def __init__(self, folder: Path, hosts: int, **environment):
        # What commands of agents do is the same as on one host; see tests/support/product.py.
        environment |= {"HANDRAIL_RUNS": "0", "HANDRAIL_HELD": "0", "HANDRAIL_UNHELD": "run"}
        self.cluster = Cluster(folder, hosts=hosts, environment=environment)
        self.user = self._console = None

    def start(self, say):
        self.cluster.up(say)
        at = self.cluster.balancer.place
        self.address, self.port, self.url = at.address, at.port, self.cluster.url
        self.desk_host = {"Host": at.at}
        self.environment = self.cluster.first.environment

    @property
    def supervisors(self) -> dict[str, subprocess.Popen]:
        return {name: host.process for name, host in self.hosts.items()}

    @property
    def hosts(self) -> dict[str, Host]:
        """Return {HANDRAIL_HOST_NAME: the host}."""
        return {f"host-{name}": host for name, host in self.cluster.hosts.items()}

    @property
    def homes(self) -> dict[str, Path]:
        return {name: host.home for name, host in self.hosts.items()}

    @property
    def log(self) -> str:
        return "\n".join(host.log.read_text(errors="replace") for host in self.hosts.values())

    def is_ready(self) -> bool:
        """Return whether each web says so of itself, and each host runs and answers."""
        if any(host.process.poll() is not None for host in self.hosts.values()):
            return False
        with psycopg.connect(self.cluster.database.url, row_factory=dict_row, connect_timeout=5) as opened:
            if not all(row["answers"] for row in opened.execute(HOSTS.format(SILENT_S))):
                return False
        return all(self._says_ready(host) for host in self.hosts.values() if host.has_web)

    def _says_ready(self, host: Host) -> bool:
        asked = urllib.request.Request(f"http://{host.place.at}/readyz", headers=self.desk_host)
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def places(self, token: str) -> dict[str, dict]:
        """Return what the API says of each workspace: {key: {state, place, …}}."""
        found, cursor = {}, ""
        while cursor is not None:
            page = self.get(f"/api/v1/workspaces{cursor and f'?cursor={quote(cursor)}'}", token).json
            found |= {each["key"]: each for each in page["workspaces"]}
            cursor = page["cursor"]
        return found

    def clean_up(self):
        if self._console:
            self._console.close()
        self.cluster.down()
