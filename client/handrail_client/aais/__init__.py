"""Approvals of the Agent Approval Interchange Specification (AAIS): people at a Handrail desk decide them.

    from aais.store import ApprovalAuthority
    from handrail_client import Handrail
    from handrail_client.aais import HandrailBackend, Presenter

    desk = Handrail()
    authority = ApprovalAuthority(HandrailBackend(desk, "builds"), stream="builds")
    with Presenter(authority, desk):
        request = authority.add_request(action=..., origin=..., risk=..., choices=..., ttl=3600)
        receipt = authority.wait_for_resolution(request["request"]["id"], timeout=3600)

The backend keeps the authority's state at the desk, so that processes on several hosts share it and it outlives each of
them. The presenter asks about each pending request and gives the answer to the authority; it works with any backend.
Needs the package agent-approval-interchange, 0.2 or newer.
"""

from handrail_client.aais.backend import HandrailBackend
from handrail_client.aais.presenter import Presenter

__all__ = ["HandrailBackend", "Presenter"]
