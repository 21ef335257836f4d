"""What agents and people say in agents' sessions: heard from hooks, filled in from the transcripts that agents keep.

It is never evidence, as an agent can write its own transcript: cards link to it, and nothing that judges calls imports
this package.
"""
