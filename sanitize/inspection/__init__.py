"""Tools that read a corpus or its private folder: SQL, preview, annotation, estimates of recall,
reproduction from a manifest.

May import pipeline, reporting and the layers below; must not be imported by them.
"""
