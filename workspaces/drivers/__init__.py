"""One contract (base) for each kind of backend: folder, sandbox, docker, microvm."""
