"""Commands of `manage.py` for connecting agents and for proofs."""
