from tests.workspaces.drivers.runs import begin, ground, limited  # noqa: F401 - fixtures
