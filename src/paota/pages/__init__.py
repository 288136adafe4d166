"""Pages: HTML files that open anywhere, without a network.

The kit: `page` (what a page is made of, and its template), `figure` (Plotly figures as data), `curves`, `timeline`,
`palette`, `words`, `export` (the same figures on paper), and in `assets` one template, one style sheet and one script. On
it stand `report` (runs), `sweep` and `reproduction`.
"""

from .report import render, write

__all__ = ["render", "write"]
