"""Parts of operations that several kinds share; a kind is a module of `workspaces/runner/operations/`."""
