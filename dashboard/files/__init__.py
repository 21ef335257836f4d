"""Files of this host: atomic writes and locks."""
