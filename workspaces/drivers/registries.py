"""The registry that a container engine asks for an image, read from the image's name."""

DOCKER_HUB = "docker.io"


def registry_of(reference: str) -> str:
    """Return the registry's host in lower case, with its port if the name of the image has one."""
    first, slash, _ = reference.partition("/")
    # Engines also take a first part with a capital for a host: no repository of Docker Hub has one.
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return DOCKER_HUB
    host = first.lower()
    return DOCKER_HUB if host == "index.docker.io" else host
