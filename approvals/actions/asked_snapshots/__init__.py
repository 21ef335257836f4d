"""The snapshot of a workspace's files as they are when an action begins to wait for a person.

`asking.py` asks the runner for it, which takes it in approvals/broker/asked_snapshot.py; `state.py` reads its progress.
"""
