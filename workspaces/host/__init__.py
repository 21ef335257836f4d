"""One host: where its files lie, whose runner it has, and what the runner keeps aside."""
