"""Commands, terminals and checks of a workspace, and what they printed."""
