"""The kit of all pages: HTML files that open anywhere, without a network. It knows no study.

`page` says what a page is made of, `figure` holds Plotly figures as data, `curves` and `timeline` draw them, `export` draws
them on paper, `notebook` shows them in a notebook, and `assets` holds one template, one style sheet and one script.
"""
