"""Results of runs: trajectories, run folders, checkpoints and measures."""
