"""Search all that a team keeps for a value."""

from workspaces.runner.scrub import live_files
from workspaces.runner.scrub_elsewhere import on_other_hosts
from workspaces.runner.steps.given_value import WithValue, tick_of
from workspaces.services.scrub import asking, places
from workspaces.services.scrub.search import search


class Scrub(WithValue):
    """Find the places that hold the value."""

    when_cancelled = "Stopped; nothing was changed."

    async def work(self, job, team, wanted):
        tick = tick_of(job)
        found, not_searched = await job.thread(search, team, wanted, tick)
        live, unread = await live_files(job.daemon, team, wanted, lambda: tick("files", len(found)))
        found += live
        more, elsewhere = await on_other_hosts(job, team, wanted, purge=False, tick=lambda: tick("files", len(found)))
        found += places.without_twins(found, more)
        return {"ok": True} | places.outcome(found, not_searched + unread + elsewhere)

    def finish(self, job, outcome):
        asking.forget_old(job.operation.team)
