"""A snapshot as a read-only folder, through FUSE: nothing is written out, and files are read from the store on access.

`snapshot_folder` answers for paths and knows nothing of FUSE; `file_system` serves it with libfuse 3, which comes with
the extra `mount`.
"""
