"""Every figure and table of the paper, computed again, with a verdict for each claim."""
