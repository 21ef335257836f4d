"""A client for Handrail, the review desk for coding agents. Needs nothing but Python."""

from handrail_client.actions import Action
from handrail_client.connection import Connection
from handrail_client.desk import Handrail
from handrail_client.errors import AlreadyUsed, Denied, HandrailError, NotAllowed, NotAnswered, Refused, Unreachable

__all__ = [
    "Action",
    "AlreadyUsed",
    "Connection",
    "Denied",
    "Handrail",
    "HandrailError",
    "NotAllowed",
    "NotAnswered",
    "Refused",
    "Unreachable",
]
