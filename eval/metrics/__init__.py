"""Metrics, one per file. The folder is the registry: `use = "extraction"` in a suite means
`extraction.py` here."""
