"""Parts that report occurrences of personal data, one a file: the file name is what a plan's `find.finders` says."""
