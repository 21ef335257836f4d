"""Search everything of a team that is kept for a given value, and purge it, with a signed receipt.

The value is in the memory of the request and of the runner, for as long as it takes. What is stored of it is a keyed
hash. `search` yields places, `purge` removes what may be removed; `asking` hands both to the runner.
"""
