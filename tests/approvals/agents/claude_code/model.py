"""The scripted model, with the words that tests have for it."""

from approvals.connect.proof.model import DONE, Model, call, run, say

__all__ = ["DONE", "Model", "call", "run", "say"]
