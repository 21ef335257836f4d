from tests.approvals.agent_runs.conftest import installed, workspace  # noqa: F401 - fixtures
