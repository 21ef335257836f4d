"""Run the maintenance script of an environment after a resume."""

from workspaces import lifecycle
from workspaces.models import State, Workspace
from workspaces.provisioning.scripts import shell_words
from workspaces.runner.operations.command import RunCommand


class Maintain(RunCommand):
    """Run the environment's maintenance script after a resume. Operations submitted meanwhile wait until it ends."""

    is_useful = is_asked = False

    def finish(self, job, outcome):
        super().finish(job, outcome)
        if outcome.get("exit_status") == 0:
            return
        how = outcome.get("words") or outcome.get("reason") or "it did not run"
        how += shell_words(outcome.get("exit_status"))
        words = f"The maintenance script failed ({how}). Its output is under Commands."
        Workspace.objects.filter(pk=job.workspace.pk, state=State.READY, reason="").update(reason=words)
        lifecycle.record(job.workspace, job.by, "workspace.maintenance_failed", {"reason": how[:1000]})
