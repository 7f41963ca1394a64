"""Data subject requests: finds one person in tables, documents and shards, and erases them."""
