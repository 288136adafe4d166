"""The foundation of all other folders: errors, settings, registry, random keys, files, units. It imports no other folder."""
