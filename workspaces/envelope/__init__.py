"""What a program may read, write and reach, and how the kernel holds it to that.

Standard library only, any Python from 3.9, imports only from this package: it is packed into the init's archive
(`../drivers/program_archive.py`), and a small program can use it alone.
"""
