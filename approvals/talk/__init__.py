"""What people say to agents unasked: messages, and interrupts that deny their calls for a while."""
