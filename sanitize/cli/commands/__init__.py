"""One command of `sanitize` a file; each has a function `command`, whose parameters Typer turns into options."""
