"""What lies on disk: table schemas, corpus and shards, Parquet and JSON files, locks, the vault, remote storage, SQL views, task records
and the atomic publish.

Imports `core` and `errors`; knows nothing of kinds, finders or editors.
"""
