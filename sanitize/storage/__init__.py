"""Everything on disk: table schemas, corpus and shards, Parquet and JSON files, locks, the vault,
remote storage, task records and atomic publication; `runs/`: what runs leave in the private folder;
`views/`: SQL views of its tables; `records/`: what records of data sets look like.

May import `core` and `errors`; must not import kinds, finders or editors.
"""
