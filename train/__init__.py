"""Sanitized shards in, checkpoints in Hugging Face layout out. Empty so far.

Recipes, batches, objectives and the loop will stand here.
Knocks at `sanitize.shards` and at nothing else; imports among its own files are relative.
"""
