"""The building blocks of all pages: HTML files that open anywhere, without a network.

`page` says what a page consists of, `figure` holds Plotly figures as data, `curves` and `timeline` draw them, `export`
draws them for papers, `notebook` shows them in a notebook, and `assets` holds one template, one style sheet and the
scripts. Nothing here knows a study.
"""
