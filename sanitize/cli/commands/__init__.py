"""The commands of `sanitize`, one per file. Each file has a function `command`; Typer turns its
parameters into arguments and options."""
