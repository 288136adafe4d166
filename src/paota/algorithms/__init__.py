"""Named combinations of a timeline and a server rule. One short file each, reading like its paper."""

from .base import Algorithm, Event, Outcome, World

__all__ = ["Algorithm", "Event", "Outcome", "World"]
