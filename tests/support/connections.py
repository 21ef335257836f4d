"""Work on connections to the database that a test's own thread does not use."""

import threading

from django.db import connections


def elsewhere(function):
    """Call the function on a connection of its own, and wait for it."""

    def run():
        try:
            function()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
