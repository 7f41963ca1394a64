"""Parts that rewrite spans of texts, one a file: the file name is what a plan's `[[edit]] use =` says."""
