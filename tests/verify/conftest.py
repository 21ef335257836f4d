"""What is exported comes from actions that are asked for as in tests of approvals."""

from tests.approvals.conftest import ask, caller  # noqa: F401
