"""Droppers: parts that remove whole documents, one per file. A plan names one by its file name:
`[[drop]] use = "exact_dup"`."""
