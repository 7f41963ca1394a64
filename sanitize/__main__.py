"""`python -m sanitize` is the command `sanitize`."""

from sanitize.cli.main import main

main()
