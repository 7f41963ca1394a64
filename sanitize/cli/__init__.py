"""The command `sanitize`: entry point, shared options, console output, demo, self-test. One command is one file in `commands/`.

Nothing imports this package.
"""
