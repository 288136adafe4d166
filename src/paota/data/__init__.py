"""What each device holds: data sets and how they are dealt out."""
