"""The vocabulary of an experiment file: its sections, its presets and the reference of all settings."""
