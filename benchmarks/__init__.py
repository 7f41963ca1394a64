"""Benchmarks of this house. The file is here because other distributions (opacus) install a package of this name, which would win."""
