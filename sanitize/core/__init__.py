"""Building blocks without files: Arrow buffers, text cells, keys and draws, protocols of plan parts and engines, display, progress.

Imports only `sanitize.errors`. Nothing here opens a corpus.
"""
