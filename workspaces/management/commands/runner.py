"""`manage.py runner`: the daemon of this host, until SIGINT or SIGTERM."""

import asyncio
import signal

from django.core.management.base import BaseCommand, CommandError

from workspaces.runner.daemon import AlreadyRunning, Daemon


class Command(BaseCommand):
    help = "Run the daemon that alone touches workspaces: carries out effects, watches, serves live reads."

    def handle(self, **options):
        try:
            asyncio.run(_run())
        except AlreadyRunning as error:
            raise CommandError(str(error)) from None


async def _run():
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    await Daemon().run(stopping)
