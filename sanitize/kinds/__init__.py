"""Kinds of personal data (entity types), one a file: pattern, check, normalisation, surrogates. `countries/` has national identifiers."""
