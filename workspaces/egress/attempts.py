"""What came of one attempt to reach a host."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class BlockCode(StrEnum):
    NOT_LISTED = "not_listed"
    UNRESOLVED = "unresolved"
    PRIVATE_ADDRESS = "private_address"
    UNREACHABLE = "unreachable"
    INVALID_NAME = "invalid_name"
    INVALID_REQUEST = "invalid_request"
    HOST_MISMATCH = "host_mismatch"
    UNVERIFIABLE = "unverifiable"
    NOT_COVERED = "not_covered"  # by the environment's rules by method and path


class Block(NamedTuple):
    """Why an attempt was blocked: a code for programs, a message for people."""

    code: BlockCode
    message: str


@dataclass
class Attempt:
    """One attempt to reach a host, and the bytes relayed: `sent` to the host, `received` from it."""

    host: str
    port: int
    method: str
    allowed: bool = False
    block: Block | None = None
    sent: int = 0
    received: int = 0
    token: str = ""  # of the pass that opened the host (passes.py)
