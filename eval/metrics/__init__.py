"""Metrics, one per file, found by the file name: `use = "extraction"` in a suite means
`extraction.py` here."""
