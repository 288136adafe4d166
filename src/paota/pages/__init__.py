"""One or several runs as one HTML file that opens anywhere, without a network."""

from .writer import render, write

__all__ = ["render", "write"]
