"""Reads at the code host that the runner carries out for calls held in the box of a connected folder."""
