"""Editors: parts that replace spans of texts, one per file. A plan names one by its file name:
`[[edit]] use = "rmft"`."""
