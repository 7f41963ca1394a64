"""`python -m sanitize` is the command `sanitize`."""

from sanitize.cli import main

main()
