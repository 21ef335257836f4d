"""Manifests: the signed record of what a snapshot holds, or of what a resume returned to, and what caused it."""
