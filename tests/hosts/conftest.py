from tests.drivers.runs import begin, ground, limited  # noqa: F401 - fixtures
