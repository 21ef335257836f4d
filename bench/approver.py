"""A person at a desk that a benchmark starts."""

import threading

from tests.support.product import Product


class Approver:
    """A person who approves every pending action."""

    def __init__(self, product: Product):
        self._product, self._token = product, product.person_token("rita", "reviewer")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._approve)
        self.count = 0

    def _approve(self):
        while not self._over.wait(0.05):
            waiting = self._product.get("/api/v1/actions?status=pending", self._token).json["actions"]
            for action in waiting:
                answer = {"verdict": "approve", "digest": action["digest"]}
                sent = self._product.post(f"/api/v1/actions/{action['id']}/decision", self._token, answer)
                self.count += sent.status == 200

    def __enter__(self) -> "Approver":
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
