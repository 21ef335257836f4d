"""The files of a workspace at a point in time, and what differs between two points."""
