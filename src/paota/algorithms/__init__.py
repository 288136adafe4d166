"""Algorithms: named combinations of a scheme and three steps, one short file each."""
