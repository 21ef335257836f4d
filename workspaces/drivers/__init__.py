"""The kinds of backends: each is a folder whose `driver.py` has a DRIVER, and an entry of TABLE in `capabilities.py`.

`base.py` is the contract of a driver, `local.py` what those share whose Runs are processes of this host.
"""
