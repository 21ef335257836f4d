"""Run a transaction again that the database ended in favour of another one."""

import functools
import logging
import random
import time

from django.db import DatabaseError, connection

from dashboard.database.errors import ended_for_another

logger = logging.getLogger("handrail.database")
TRIES = 5
FIRST_PAUSE = 0.02  # seconds, at random from none to this; twice as long each time


def retried(function):
    """Call the function again after a deadlock (SQLSTATE 40P01) or a serialization failure (40001), up to TRIES times.

    For a function that opens one transaction, and changes nothing that is not rolled back with it. Within a transaction
    of the caller nothing is tried again: the caller's is lost as a whole.
    """

    @functools.wraps(function)
    def again(*args, **kwargs):
        for tried in range(1, TRIES):
            try:
                return function(*args, **kwargs)
            except DatabaseError as error:
                if connection.in_atomic_block or not ended_for_another(error):
                    raise
                logger.warning("%s is tried again (%s of %s): %s", function.__qualname__, tried, TRIES - 1, error)
            time.sleep(random.uniform(0, FIRST_PAUSE * 2**tried))
        return function(*args, **kwargs)

    return again
