"""The console command `sanitize`: entry point, shared options, console output, demo, self-test.
Each command is one file in `commands/`.

This package may import all others; no other package imports it.
"""
