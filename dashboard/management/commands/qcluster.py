import os
import sys

from django.core.management.base import CommandError
from django_q.conf import Conf
from django_q.management.commands import qcluster

from dashboard.workers.lanes import LANES


class Command(qcluster.Command):
    help = "Serve one lane of the queue with django-q2's own cluster. `make up` serves all lanes."

    def handle(self, *args, **options):
        name = options["cluster_name"] or Conf.CLUSTER_NAME
        if name not in LANES:
            raise CommandError(f"{name} is no lane. They are: {', '.join(LANES)}.")
        if name != Conf.CLUSTER_NAME:
            # django-q2 reads its settings when it is imported, which is before it sees the option.
            os.environ["Q_CLUSTER_NAME"] = name
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        super().handle(*args, **options)
