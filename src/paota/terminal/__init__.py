"""The terminal: arguments that commands share, progress displays and tables."""
