"""Let a command read a secret file, from the page of a call that met the mask."""

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals import secret_reads
from approvals.evaluation import with_all
from approvals.models import Action
from dashboard.pages import asked, carry_out, must, signed_in


@signed_in
@require_POST
def give(request, pk):
    action = get_object_or_404(with_all(Action.objects.visible_to(request.caller)), pk=pk)
    must(request.caller, "decide", action.team_id)
    path = asked(request, "path")["path"]
    return carry_out(
        request,
        lambda: secret_reads.give(action, caller=request.caller, path=path),
        then=reverse("action", args=[pk]),
        say=f"This command may read {path} for {secret_reads.HOURS} hours. The agent has to make the call again.",
    )
