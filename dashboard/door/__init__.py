"""The one door for all that an agent does: a declaration for each verb, and the rules that hold at it.

`table.py` declares each verb that a token can ask for, `entering.py` lets a caller in by it. No view has to remember
these rules: who has no declaration cannot be reached by a token, and `manage.py check` and each start say so.
"""
