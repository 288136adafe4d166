"""Questions that need many runs or a closer look. Each folder holds the computation, the page and the command."""
