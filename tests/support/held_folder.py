"""A product of its own with one connected folder whose calls are held."""

import shutil
import tempfile
from pathlib import Path

from tests.support.held_calls import HeldCalls, give
from tests.support.product import Product


class HeldFolder:
    """`root/repo` is the folder, `root/hosts` the names that its proxy knows; as `user`, or as ourselves if None."""

    def __init__(self, home: Path, user: int | None, **environment):
        self.root = Path(tempfile.mkdtemp(prefix="handrail-held-", dir="/home" if user is not None else Path.home()))
        self.root.chmod(0o755)
        self.hosts = self.root / "hosts"
        self.hosts.touch()
        networks = {"HANDRAIL_EGRESS_HOSTS": str(self.hosts), "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16"}
        self.product = product = Product(home, HANDRAIL_HELD="1", **networks, **environment)
        for name in ("repo", "home"):
            (self.root / name).mkdir()
        give(self.root, user)
        if user is not None:
            product.become(user)
        product.environment["HOME"] = str(self.root / "home")
        product.start()
        self.folder = self.root / "repo"
        self.calls = HeldCalls(self.folder, self.root / "home", user)
        self.calls.connect(product)

    def runs(self, command: str) -> str:
        """The output of a call that ran held, unasked."""
        ended = self.calls.call(command)
        assert ended.ran, ended
        return ended.output.decode()

    def close(self):
        self.product.clean_up()
        shutil.rmtree(self.root, ignore_errors=True)
