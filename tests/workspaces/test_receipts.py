"""The runner forgets what it carried out long ago, and nothing that may still be under way."""

import sqlite3
import time
from contextlib import closing

from workspaces.runner.ledger import Ledger


def test_receipts_of_what_settled_a_year_ago_are_forgotten(new_product):
    product = new_product()
    path = product.home / "runner" / "ledger.sqlite3"
    ledger = Ledger(path)
    for name, phase in (("old", "settled"), ("old but open", "started"), ("young", "settled")):
        ledger.write(name, 1, phase)
    ledger.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE receipts SET at = datetime('now', '-400 days') WHERE operation LIKE 'old%'")
        database.commit()
    product.start()
    with closing(sqlite3.connect(path)) as database:
        for _ in range(300):
            found = database.execute("SELECT operation FROM receipts ORDER BY operation").fetchall()
            kept = [name for (name,) in found if name in ("old", "old but open", "young")]  # the start has its own
            if "old" not in kept:
                break
            time.sleep(0.1)
    assert kept == ["old but open", "young"]
