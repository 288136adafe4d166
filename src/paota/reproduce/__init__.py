"""Every figure and table of the paper from one command, ours beside the paper's, with a verdict for each claim."""
