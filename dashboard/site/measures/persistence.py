"""Whether persistence pays: resumes, the setup that they save, and how soon work goes on."""

from django.db.models import Exists, OuterRef, Subquery

from dashboard.site.measures.period import Period
from dashboard.site.measures.quantiles import summary
from workspaces.models import Run


def persistence(team_id, period: Period) -> dict:
    """Return the figures of the starts in the period that were not the first of their workspace."""
    earlier = Run.objects.filter(workspace=OuterRef("workspace"), started_at__lt=OuterRef("started_at"))
    setups = earlier.filter(setup_seconds__isnull=False).order_by("-started_at")
    runs = Run.objects.filter(
        Exists(earlier), workspace__team=team_id, started_at__gte=period.since, started_at__lt=period.until
    ).annotate(saved=Subquery(setups.values("setup_seconds")[:1]))
    resumes = list(runs.values_list("started_at", "ready_at", "ended_at", "setup_seconds", "first_useful_at", "saved"))
    return _figures(resumes)


def _figures(resumes: list[tuple]) -> dict:
    over = [row for row in resumes if row[1] or row[2]]  # one that is still starting has not succeeded or failed yet
    ready = [row for row in over if row[1]]
    kept = [saved for _, _, _, setup, _, saved in ready if setup is None and saved is not None]
    useful = [(first - started).total_seconds() for started, _, _, _, first, _ in ready if first]
    return {
        "resumes": len(over),
        "resumes_ready": len(ready),
        "resume_success": round(len(ready) / len(over), 4) if over else None,
        "setup_minutes_avoided": round(sum(kept) / 60, 2),
        "cold_rebuilds": sum(1 for row in ready if row[3] is not None),
        "first_useful": summary(useful),
    }
