"""The daemon that alone talks to drivers and writes workspaces and snapshots."""
