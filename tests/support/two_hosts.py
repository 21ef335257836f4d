"""Two hosts of one installation: each a HANDRAIL_HOME, with one database, the same keys, and runners with addresses."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import postgres
from tests.support.desk import Desk
from tests.support.product import Product, free_port
from tests.support.waiting import until


@contextmanager
def two_hosts(folder: Path, **environment: str) -> Iterator["Hosts"]:
    """Both up, over PostgreSQL where that is installed, with the workspace `far`; see Hosts."""
    server = postgres.Server() if postgres.programs() else None
    url = server.url if server else f"sqlite:///{folder}/shared.sqlite3"
    made = []
    try:
        for name in ("host-a", "host-b"):
            address = f"127.0.0.1:{free_port()}"
            host = {"HANDRAIL_HOST_NAME": name, "HANDRAIL_RUNNER_ADDRESS": address, "DATABASE_URL": url}
            host |= environment
            made.append(Product(folder / name, fresh=True, **host))
        first, second = made
        first.start()
        until(lambda: (first.home / "keys" / "vapid").exists())
        shutil.copytree(first.home / "keys", second.home / "keys")
        second.start()
        yield Hosts(made)
    finally:
        for product in reversed(made):
            product.clean_up()
        if server:
            server.clean_up()


class Hosts:
    """Two products, by what they are to the workspace `far`: its host's `own`, and the `other` one.

    It has a file, a snapshot and an ended command. `through_own` and `through_other` are the API as a lead of the team
    sees it at each web.
    """

    def __init__(self, products: list[Product]):
        first = products[0]
        self.token = first.person_token("lia", "lead")
        desk = Desk(first, self.token)
        desk.create("far")
        leads = first.shell("from workspaces.models import Workspace; print(Workspace.objects.get(key='far').runner)")
        names = [product.environment["HANDRAIL_HOST_NAME"] for product in products]
        self.own = products[names.index(leads)]
        self.other = products[1 - names.index(leads)]
        self.through_own, self.through_other = (Desk(product, self.token) for product in (self.own, self.other))
        self.through_own.call("PUT", "/workspaces/far/files/hello.txt", b"hello\n", None)
        self.through_own.run("far", "printf one; echo two")
        self.through_own.post("/workspaces/far/snapshots", {}, None)
        self.through_own.settled("far")
