"""The check of a published folder: its shards, its pages and every other file in it, against the
manifest and the private folder. Nothing else of the leak check imports it."""
