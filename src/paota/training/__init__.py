"""Local training and evaluation: what is drawn, and what computes it."""
