"""Key files, the key ring, encrypted files, and secret values that no log may show."""
