"""Step-up: a person approves a critical action with a passkey, whose signature is kept with the decision.

requirement: from whom it takes a passkey. challenges: what is signed. assertions: the answer's check, now and later.
"""
