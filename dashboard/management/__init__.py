"""Commands of `manage.py` for running a desk."""
