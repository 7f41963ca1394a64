"""The plan model, its loader, run settings, and the shipped plans (TOML files)."""
