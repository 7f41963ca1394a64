"""Drives the stages over a corpus: index, run, append, manifest, canaries; `streaming` for records as they come, `erasure` for data subject
requests.

The only package that knows the order of the stages.
"""
