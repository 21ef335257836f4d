"""The init, the first process of a Run: starts, lists, stops and reaps everything that runs in a workspace.

A program of its own: standard library only, any Python from 3.9, imports only from this package (in a sandbox it is our
only file). `../program_archive.py` packs it; `program.py` says how it is run, `protocol.py` what clients may ask.
"""
