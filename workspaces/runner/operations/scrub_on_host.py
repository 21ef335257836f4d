"""The part of a search or a purge of a value that one of the other hosts does, for runner/scrub_elsewhere.py."""

from workspaces.runner.scrub import live_files
from workspaces.runner.steps.given_value import WithValue, tick_of
from workspaces.services.scrub import places, programs


class ScrubOnHost(WithValue):
    """Search the files of live workspaces and what programs printed here; a purge takes it out of the latter."""

    when_cancelled = "Stopped; what was removed before stays removed."

    async def work(self, job, team, wanted):
        tick = tick_of(job)
        step = programs.purge if job.args["purge"] else programs.find
        printed = await job.thread(lambda: list(step(team, wanted, lambda: tick("programs", 0), here=True)))
        live, unread = await live_files(job.daemon, team, wanted, lambda: tick("files", len(printed)))
        return {"ok": True} | places.outcome(printed + live, unread)
