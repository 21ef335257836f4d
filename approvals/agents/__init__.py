"""The agents that Handrail understands: `dialects` has what they ask, `transcripts` what they keep."""
