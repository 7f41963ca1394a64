"""Kinds of personal data (entity types), one per file: pattern, check, normalisation, surrogates.
`countries/` has national identifiers."""
