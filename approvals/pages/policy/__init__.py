"""The Policy pages: what is in force, the editor, versions, the past, a rule of a card."""
