"""Let a command read a secret file, from the page of a call that met the mask."""

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from approvals.actions import secret_reads
from approvals.evaluation.judge import with_all
from approvals.models import Action
from dashboard.web.pages import carry_out, must, parameters, signed_in


@signed_in
@require_POST
def give(request, pk):
    action = get_object_or_404(with_all(Action.objects.visible_to(request.caller)), pk=pk)
    must(request.caller, "decide", action.team_id)
    path = parameters(request, "path")["path"]
    return carry_out(
        request,
        lambda: secret_reads.allow_read(action, caller=request.caller, path=path),
        then=reverse("action", args=[pk]),
        say=gettext("This command may read %(path)s for %(hours)s hours. The agent has to make the call again.")
        % {"path": path, "hours": secret_reads.HOURS},
    )
