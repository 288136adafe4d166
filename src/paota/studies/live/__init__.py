"""A page that shows a run or a sweep while it computes."""
