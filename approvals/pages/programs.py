"""Programs to download, for machines on which Handrail itself is not installed. They hold no secret."""

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from approvals.agents import hook_programs


@require_safe
def acp_program(request) -> HttpResponse:
    """Send the gate between an editor and its agent, which `python3 -IS handrail-acp.pyz` runs."""
    headers = {"Content-Disposition": 'attachment; filename="handrail-acp.pyz"'}
    return HttpResponse(hook_programs.acp_archive(), content_type="application/zip", headers=headers)
