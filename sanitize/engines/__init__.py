"""Engines map a function over shards and run SQL over tables, nothing else. One engine a file; its
file name is the value of `--engine`."""
