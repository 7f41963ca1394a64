"""Applies a plan to records as they arrive: sources, batches, sinks, and the state from which an
interrupted stream resumes."""
