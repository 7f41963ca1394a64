"""Building blocks: Arrow buffers, text cells, keys and draws, protocols of plan parts and engines,
display, progress.

Imports only `sanitize.errors`, `sanitize.array_types` and kernels. No module in this package opens
a corpus.
"""
