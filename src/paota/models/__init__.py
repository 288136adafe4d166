"""Models: any pair of pure functions (init, apply)."""
