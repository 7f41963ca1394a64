"""The leak check: searches an output for every value that must not occur, in all forms, and
attributes each match.

Imports nothing of what it checks: no finders, droppers, editors or stages.
"""
