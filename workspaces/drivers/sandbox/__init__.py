"""The driver `sandbox`: bubblewrap, which needs nothing else on the host."""
