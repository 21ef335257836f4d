"""What a policy would have asked about the calls that agents made on this machine. No Django here.

`transcripts` reads the files that agents left, `replay` judges their calls, `trust` suggests what to trust, `attacks`
holds the hostile commands that a suggestion is tried against, and `report` puts the four together.
"""
