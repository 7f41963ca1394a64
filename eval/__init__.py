"""Shards and checkpoints in, one report out. Empty so far.

Suites, probes, metrics and the frontier will stand here.
Knocks at `sanitize.storage.corpus`, `sanitize.finders` and the vault (handed over by path); imports among its own files are relative.
"""
