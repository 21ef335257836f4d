"""The limits of workspaces whose environment names none, as far as no setting says them."""

MIB, GIB = 1 << 20, 1 << 30

PIDS = 2048  # enough for builds and browsers, low enough to contain a fork bomb
# A guest has its memory, processors and disk whether it uses them or not, so it gets less than others may use.
GUEST_MEMORY = 512 * MIB
GUEST_CPUS = 1
GUEST_DISK = 8 * GIB
