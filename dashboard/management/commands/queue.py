from django.core.management.base import BaseCommand

from dashboard.processes.queue import Queue


class Command(BaseCommand):
    help = "Run due tasks of the queue, one after the other, until SIGINT or SIGTERM."

    def handle(self, **options):
        Queue().run()
