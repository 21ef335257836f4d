"""The model relay: the agents that Handrail starts ask models through it, and so never see the provider's key."""
