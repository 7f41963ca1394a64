"""Benchmarks: speed (`make bench`) and the comparisons of the papers (`make papers`).

A package, since opacus installs one of this name, which would be taken for it.
"""
