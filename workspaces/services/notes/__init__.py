"""Notes of a workspace, lessons of a repository, and handing a workspace over."""
