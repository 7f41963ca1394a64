"""The documentation: Markdown pages, and `generate`, which builds the reference pages from the
code."""
