"""Watching a run or a sweep that is going on: what it writes into its folder, and a page that reads it."""
