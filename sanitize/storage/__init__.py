"""Everything on disk: table schemas, corpus and shards, Parquet and JSON files, locks, the vault,
remote storage, SQL views, task records and atomic publication; `records/`: what records of data
sets look like.

May import `core` and `errors`; must not import kinds, finders or editors.
"""
