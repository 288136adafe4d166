"""What every other folder may use: errors, settings, registry, random keys, files, units. It imports no other folder."""
