"""Commands of `manage.py` for environments, secrets, stores and hosts."""
