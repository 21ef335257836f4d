"""The REST API of approvals (contract: api.md)."""
