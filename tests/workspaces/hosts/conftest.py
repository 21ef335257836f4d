"""Two hosts of one installation: a HANDRAIL_HOME each, one database, the same keys, and runners that both webs reach."""

import shutil
from types import SimpleNamespace

import pytest

from tests.support import postgres
from tests.support.desk import Desk
from tests.support.product import Product, free_port
from tests.support.waiting import until


@pytest.fixture(scope="session")
def hosts(tmp_path_factory):
    """`hosts.a` and `hosts.b`, both up; a workspace is led by whichever runner claims it: `hosts.workspace("a")`."""
    folder = tmp_path_factory.mktemp("hosts")
    server = postgres.Server() if postgres.programs() else None
    url = server.url if server else f"sqlite:///{folder}/shared.sqlite3"
    made = []
    try:
        for name in "ab":
            address = f"127.0.0.1:{free_port()}"
            host = {"HANDRAIL_HOST_NAME": f"host-{name}", "HANDRAIL_RUNNER_ADDRESS": address, "DATABASE_URL": url}
            made.append(Product(folder / name, fresh=True, **host))
        first, second = made
        first.start()
        until(lambda: (first.home / "keys" / "vapid").exists())
        shutil.copytree(first.home / "keys", second.home / "keys")
        second.start()
        yield Hosts(first, second)
    finally:
        for product in reversed(made):
            product.clean_up()
        if server:
            server.clean_up()


class Hosts(SimpleNamespace):
    """Two products, each with the API as a lead of the team sees it through its web: `a`, `b`, `on_a`, `on_b`."""

    def __init__(self, a: Product, b: Product):
        token = a.person_token("lia", "lead")
        super().__init__(a=a, b=b, token=token, on_a=Desk(a, token), on_b=Desk(b, token))
