"""A team's metrics as Prometheus text: what is so now, and the sums of this calendar month (UTC)."""

from django.conf import settings
from django.db.models import Count, Sum
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from approvals.models import Action, Tier
from dashboard.site.measures import approvals, period, resources
from dashboard.site.measures.persistence import persistence
from dashboard.workers import lanes, loop_watch
from workspaces.models import Cap, Run, State, Workspace
from workspaces.services import hosts

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def text(team) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collector(team))
    return generate_latest(registry)


class _Collector:
    """Asks the database when it is collected; nothing is kept between two scrapes."""

    def __init__(self, team):
        self.team, self.month = team, period.this_month()

    def describe(self):
        return []  # else registering would collect once, only to learn the names

    def collect(self):
        yield from self._now()
        yield from self._hosts()
        yield from self._approvals()
        yield from self._persistence()
        yield from self._resources()

    def _gauge(self, name: str, help_text: str, rows, labels=()) -> GaugeMetricFamily:
        """Build a gauge of `rows`: (values of the labels, value); a value of None is left out."""
        family = GaugeMetricFamily(f"handrail_{name}", help_text, labels=["team", *labels])
        for values, value in rows:
            if value is not None:
                family.add_metric([self.team.slug, *values], value)
        return family

    def _now(self):
        kept = Workspace.objects.kept().filter(team=self.team)
        states = dict(kept.order_by().values_list("state").annotate(n=Count("pk")))
        yield self._gauge(
            "workspaces", "Workspaces by state.", [((s,), states.get(s, 0)) for s in State.values], ["state"]
        )
        pending = Action.objects.pending().filter(team=self.team)
        tiers = dict(pending.order_by().values_list("tier").annotate(n=Count("pk")))
        asked = [((t,), tiers.get(t, 0)) for t in Tier.values]
        yield self._gauge("actions_pending", "Actions that need approval now.", asked, ["tier"])
        up = Run.objects.filter(workspace__team=self.team, ended_at=None).count()
        yield self._gauge("workspaces_up", "Workspaces that are up.", [((), up)])
        alarms = kept.order_by().aggregate(n=Sum("watch_alarms"))["n"] or 0
        words = "Walks that found a change of files that watching had missed; watching is off there since."
        yield self._gauge("watch_alarms", words, [((), alarms)])
        loops, here = loop_watch.of_this_host().items(), settings.HANDRAIL_HOST_NAME
        worst = [((here, name), told["worst_s"]) for name, told in loops]
        words = "How late the event loop of this process was at worst in the last minute."
        yield self._gauge("loop_lateness_seconds", words, worst, ["host", "process"])
        words = "Steps of this process that held its event loop for more than a second, since its start."
        steps = [((here, name), told["steps"]) for name, told in loops]
        yield self._gauge("loop_long_steps", words, steps, ["host", "process"])
        words = "Seconds for which the oldest due task of this lane of the queue has waited for a worker."
        yield self._gauge("lane_waiting_seconds", words, [((n,), s) for n, s in lanes.waiting().items()], ["lane"])
        limits = [((cap.measure,), cap.limit) for cap in Cap.objects.filter(team=self.team)]
        yield self._gauge("cap_limit", "Limits for this month.", limits, ["measure"])

    def _hosts(self):
        found, names = hosts.shown(), ["host"]
        answering = [((host["name"],), float(host["state"] in ("ready", "draining"))) for host in found]
        yield self._gauge("host_answers", "Whether the host answers: 1 or 0.", answering, names)
        draining = [((host["name"],), float(host["state"] == "draining")) for host in found]
        yield self._gauge("host_drains", "Whether the host gets no new workspaces: 1 or 0.", draining, names)
        up = Run.objects.filter(workspace__team=self.team, ended_at=None).values_list("runner__host")
        count = dict(up.order_by().annotate(n=Count("pk")))
        rows = [((host["name"],), count.get(host["name"], 0)) for host in found]
        yield self._gauge("host_workspaces_up", "Workspaces of the team that are up on the host.", rows, names)
        for name, what in (("memory_bytes", "Bytes of memory"), ("cpus", "Processors")):
            rows = [((host["name"],), host["promised"][name]) for host in found]
            yield self._gauge(f"host_promised_{name}", f"{what} promised to workspaces that are up.", rows, names)
            rows = [((host["name"],), host["room"][name]) for host in found]
            yield self._gauge(f"host_room_{name}", f"{what} that the host may promise; 0: no limit.", rows, names)

    def _approvals(self):
        calls = approvals.calls(self.team.pk, self.month)
        named = [((name,), calls[name]) for name in ("let_run", "asked", "forbidden", "denied")]
        yield self._gauge("calls_month", "Calls of agents this month.", named, ["outcome"])
        tiers = approvals.latency(self.team.pk, self.month)["by_tier"]
        rows = [((tier, q), found[f"p{p}_s"]) for tier, found in tiers.items() for q, p in (("0.5", 50), ("0.95", 95))]
        words = "Seconds from the ask to the final answer, of this month's answers."
        yield self._gauge("approval_latency_seconds", words, rows, ["tier", "quantile"])

    def _persistence(self):
        found = persistence(self.team.pk, self.month)
        ready, failed = found["resumes_ready"], found["resumes"] - found["resumes_ready"]
        rows = [(("ready",), ready), (("failed",), failed)]
        yield self._gauge("resumes_month", "Starts after a workspace's first, this month.", rows, ["outcome"])
        yield self._gauge("cold_rebuilds_month", "Those that ran setup again.", [((), found["cold_rebuilds"])])
        saved = found["setup_minutes_avoided"]
        yield self._gauge("setup_minutes_avoided_month", "Setup that resumes saved.", [((), saved)])

    def _resources(self):
        awake = resources.awake(self.team.pk, self.month)
        yield self._gauge("awake_hours_month", "Hours in which workspaces were up, this month.", [((), awake["hours"])])
        disk = resources.disk(self.team.pk, self.month)
        yield self._gauge("workspace_bytes", "Bytes of the newest snapshots.", [((), disk["workspace_bytes"])])
        egress = resources.egress(self.team.pk, self.month)
        rows = [((way,), egress[way]) for way in ("sent", "received")]
        yield self._gauge("egress_bytes_month", "Bytes through the proxy, this month.", rows, ["direction"])
        tokens = resources.tokens(self.team.pk, self.month)
        rows = [((m["model"], way), m[way]) for m in tokens["by_model"] for way in ("input", "output")]
        yield self._gauge("tokens_month", "Tokens that agents reported, this month.", rows, ["model", "direction"])
