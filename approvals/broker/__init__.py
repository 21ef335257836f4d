"""What the runner carries out for approvals: a module for each kind of operation."""
