"""Builds surrogates for the editors: pools of name and domain components, and one invented identity
for each person.

Contains no editor.
"""
