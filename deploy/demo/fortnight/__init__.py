"""A fortnight of demonstration data: `manage.py demo --fortnight`.

`story` says what happens, `telling` makes it happen with the functions of the product, at times in the past.
"""
