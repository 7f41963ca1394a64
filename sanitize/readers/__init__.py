"""Input files to documents in standard form: one input format a file, with the survey of a corpus, staging, and the sandbox they run in.

Imports only `core`, `storage` and `errors`. `survey.py` says what a reader module has.
"""
