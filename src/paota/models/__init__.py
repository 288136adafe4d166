"""What is learned: any pair of pure functions (init, apply)."""
