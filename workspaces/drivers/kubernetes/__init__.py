"""The driver of pods: the workspaces of a Kubernetes cluster."""
