"""The egress proxy: the only way out of a workspace, and the way from it to Handrail.

No Django here: `names` and `addresses` say what may be reached, `hello` and `head` read what programs send, `proxy` and
`inside` carry it, `opener` and `listeners` make the listening sockets inside a workspace's network namespace. Who may
reach what, and where verdicts are kept, is passed in as a `Site` (workspaces/runner/network.py is the real one).
"""
