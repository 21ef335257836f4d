"""What pages, the API and sockets share: middleware, sign-in, rows of a list, one shape of errors."""
