"""What was installed in the home of a workspace: found, kept for its environment, and put into new homes."""
