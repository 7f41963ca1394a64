"""Names of people in running text: the words of a column with their properties, and the rules by which runs of words are names.

Imports `core` and the lexicon of `text`; knows no finder, no document and no address.
"""
