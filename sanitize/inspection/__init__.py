"""What looks at a corpus or its private folder without publishing: SQL, preview, annotation, estimates, reproduction from a manifest."""
