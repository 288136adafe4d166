"""A grid of settings, and its best point."""
