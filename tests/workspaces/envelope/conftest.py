from tests.workspaces.drivers.runs import begin, ground  # noqa: F401 - fixtures
