"""How surrogates are built: pools of name and domain components, and one invented identity for each person.

Used by the editors; holds no editor itself.
"""
