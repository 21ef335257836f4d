"""One address for the hooks of every agent: a call is held until its answer."""
