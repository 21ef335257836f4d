"""HTML pages of workspaces."""
