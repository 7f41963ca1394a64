"""Attacks and measures trained models: reads shards and run folders, writes one report with numbers
only.

Suites, metrics (one per file in `metrics/`), prompts, the leak test of a corpus, the frontier of
privacy against utility, and receipts for unlearning. May import `sanitize` (storage, core, finders)
and reads run folders and vaults by path; imports among its own files are relative.
"""
