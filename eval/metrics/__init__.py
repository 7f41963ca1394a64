"""One measurement a file; the folder is the registry. `use = "extraction"` in a suite means `extraction.py` here."""
