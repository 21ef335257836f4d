"""Put the gate into a folder or a whole machine, prove it, and take it out again."""
