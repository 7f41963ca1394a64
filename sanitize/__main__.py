"""Runs the command line tool: `python -m sanitize` is the same as the command `sanitize`."""

from sanitize.cli.main import main

main()
