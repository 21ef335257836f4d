"""Prove on the machine at hand that an agent is gated: its own program, a scripted model, a harmless command."""
