"""Builds what the documentation takes from code and measurements: reference pages, tables of
results, JSON schemas.

`hooks` runs it while the site is built; nothing that it builds is committed, except the blocks of
README.md and the two JSON schemas.
"""
