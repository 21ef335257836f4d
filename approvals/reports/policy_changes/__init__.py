"""A policy over time: its versions, what a changed text would do, how often its rules decide, rules from a card."""
