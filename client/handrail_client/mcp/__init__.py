"""Model Context Protocol: a gate in front of any server, and Handrail itself as a server."""
