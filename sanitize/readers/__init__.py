"""Readers: input files to documents in standard form.

One input format a file, plus the survey of the inputs, staging, and the sandbox that readers run
in. Imports only `core`, `storage` and `errors`. The docstring of `survey.py` lists the functions
that a reader module must have.
"""
