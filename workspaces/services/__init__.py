"""What people and agents ask for besides the life cycle: commands, environments, network, retention."""
