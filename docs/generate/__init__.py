"""Builds what the documentation takes from code and measurements: reference pages, tables of
results, JSON schemas.

All of it is committed: `committed_parts` writes it (`make generate`), and
tests/project/test_readme.py checks that it is current.
"""
