"""Experiment files: sections, presets and the reference of all settings."""
