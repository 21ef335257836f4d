"""The snapshot of a workspace's files as they are when an action begins to wait for a person.

`asking.py` asks the runner for it, `taking.py` takes it in the runner, `state.py` reads its progress.
"""
