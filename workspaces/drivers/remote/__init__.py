"""What the drivers share whose programs run on another machine than the runner: a guest, or a pod of a cluster."""
