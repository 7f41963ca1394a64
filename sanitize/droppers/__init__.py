"""Parts that drop whole documents, one a file: the file name is what a plan's `[[drop]] use =` says."""
