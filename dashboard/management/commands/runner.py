"""`manage.py runner`: run this host's daemon until SIGINT or SIGTERM."""

import asyncio
import signal
import sys

from django.core.management.base import BaseCommand, CommandError

from approvals.registered import runner
from dashboard.workers.loop_watch import LoopWatch
from workspaces.host import same_keys
from workspaces.host.identity import OtherInstallation
from workspaces.host.same_keys import KeysDiffer
from workspaces.runner.daemon import AlreadyRunning, Daemon


class Command(BaseCommand):
    help = "Run this host's runner, which carries out operations on workspaces and serves their files."

    def handle(self, **options):
        runner.register()
        try:
            same_keys.refuse_others()
            asyncio.run(_run())
        except (AlreadyRunning, OtherInstallation, KeysDiffer) as error:
            raise CommandError(str(error)) from None


async def _run():
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    sys.setswitchinterval(0.001)  # as in web: threads that read rows would hold the loop for 5 ms at a time
    watch = LoopWatch("runner")
    watch.start(loop)
    try:
        await Daemon().run(stopping)
    finally:
        watch.stop()
