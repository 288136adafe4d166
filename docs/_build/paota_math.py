"""A Python-Markdown extension: formulas become MathML at build time, which browsers draw without a script or a network.

Links to files of the repository that are not pages of the site become plain text.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:src|examples|benchmarks|tests|\.ci|[A-Z])[^)]*\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


class PlainLinks(Preprocessor):
    """Replaces a link to a file outside the site by its text."""

    def run(self, lines: list[str]) -> list[str]:
        return [OUTSIDE.sub(r"\1", line) for line in lines]


class MathML(Postprocessor):
    """Replaces the output of pymdownx.arithmatex by MathML."""

    def run(self, text: str) -> str:
        def drawn(found: re.Match[str]) -> str:
            tag, bracket, source = found.groups()
            latex = html.unescape(source).strip()
            mathml = convert(latex, display="block" if bracket == "[" else "inline")  # an error stops the build
            return f'<{tag} class="math">{mathml}</{tag}>'

        return FORMULA.sub(drawn, text)


class MathExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  Python-Markdown's name
        md.preprocessors.register(PlainLinks(md), "plain_links", 15)
        md.postprocessors.register(MathML(md), "mathml", 0)  # after all raw HTML is back in place


def makeExtension(**options: Any) -> MathExtension:  # noqa: N802  Python-Markdown's name
    return MathExtension(**options)
