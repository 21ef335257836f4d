"""HTML pages of approvals."""
