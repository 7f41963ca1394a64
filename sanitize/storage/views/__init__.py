"""DuckDB views over the tables of WORK: which there are (`workspace_views`), documents and n-grams,
masks of texts, SQL for names and files.

Imports only `core`, `errors` and modules of `storage`.
"""
