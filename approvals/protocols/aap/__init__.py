"""The provider API of the Agent Approval Protocol (AAP), so that its clients and framework adapters ask this desk."""
