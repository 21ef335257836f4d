"""The preview hosts: an ASGI application that passes requests on to programs in workspaces."""
