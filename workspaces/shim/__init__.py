"""The process that holds one program: its recording, its input, its socket. It outlives the daemon."""
