"""What runs leave in the private folder: a folder for each with its plan and tables, and records of
what was published.

Imports only `core`, `errors` and modules of `storage`.
"""
