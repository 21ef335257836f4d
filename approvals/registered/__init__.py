"""What approvals registers in workspaces: operations and sweeps of the runner, layers of retention, rules of purges."""
