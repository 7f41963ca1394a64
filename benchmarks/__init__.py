"""What is measured: speed (`make bench`) and what the papers compare (`make papers`).

A package, since opacus installs one of this name, which would be taken for it.
"""
