"""The pure tasks of a run: detect, aggregate, drop, rewrite, word blacklist, privacy ledger. A task
reads tables and writes tables.

Imports finders, droppers, editors and plans; never `verification`, `pipeline` or `cli`.
"""
