"""How open pages, sockets and long polls hear of new events."""
