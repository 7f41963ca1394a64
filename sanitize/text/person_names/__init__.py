"""Names of people in running text: the words of a column and their roles, the evidence that a run
of words is a name, what excludes it, the sender's name in signatures, and what the header blocks of
mails say about names.

One rule is one function; the words that rules look for are lists in `name_lexicon.py`. Imports
`core` and the rest of `text`, no finder.
"""
