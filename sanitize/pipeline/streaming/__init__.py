"""The same plan over records as they come: sources, batches, sinks, and the state that outlives a stop."""
