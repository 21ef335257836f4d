"""Tasks at code hosts: started by a label or a mention, answered in their thread, mended until their checks are green.

The host is read, never believed from a webhook: what comes by a webhook only says that it is time to read. So what a
webhook did not bring, or a kill cut off, is found by the next reading, and nothing is taken twice.
"""
