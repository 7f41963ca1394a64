"""Builds the index of a corpus: surveys the input, limits what may be lost, detects in all
documents, and extends it by appends."""
