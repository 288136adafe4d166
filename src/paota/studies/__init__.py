"""Questions that take many runs or a closer look. Each folder holds what is asked, computed and shown, and its command."""
