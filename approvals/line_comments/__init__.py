"""Comments of people on lines of diffs: drafts, how they go to an agent, and where they are shown."""
