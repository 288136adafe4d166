"""What a run leaves behind: results, run folders, checkpoints and measures."""
