"""Read what a repository's own files say, as they are in a tree of the store: neither git nor its settings run."""
