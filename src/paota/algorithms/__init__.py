"""Named combinations of a scheme and a server rule. One short file each, reading like its paper."""
