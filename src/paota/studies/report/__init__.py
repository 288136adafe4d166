"""The report of a run folder."""
