"""Engines map a function over shards and run SQL over tables, nothing else. One a file; the file name is what `--engine` says."""
