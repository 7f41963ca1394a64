"""Runs the stages over a corpus: index, run, append, manifest, canary check. `streaming` processes
records as they arrive, `erasure` handles data subject requests.

The only package that knows the order of the stages.
"""
