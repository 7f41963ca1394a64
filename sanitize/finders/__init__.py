"""Finders: parts that report occurrences of personal data. One finder per file; its file name is
its name in a plan's `find.finders`."""
