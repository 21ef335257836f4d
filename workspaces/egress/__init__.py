"""The egress proxy: a workspace's only route to the network, and its route to Handrail's API.

No Django here. `names` and `addresses` decide which hosts are allowed, `http_head` and `tls_sni` parse client input,
`proxy`, `relay` and `internal_api` forward it, `attempts` has what came of it, `listeners` and `netns_sockets` open the
listening sockets inside a workspace's network namespace. The allow decision and the log of attempts are passed in as
`AccessRules` (workspaces/runner/network.py has the production one).
"""
