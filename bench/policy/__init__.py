"""The policy engine measured: attacks stopped and benign calls kept, beside simple matchers, and how long it takes."""
