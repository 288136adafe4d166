"""Mathematics at build time: every formula becomes MathML, which browsers draw by themselves. No script, no network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")  # a file of the repository that is not a page of the site
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    def drawn(found: re.Match[str]) -> str:
        tag, bracket, source = found.groups()
        latex = html.unescape(source).strip()
        try:
            mathml = convert(latex, display="block" if bracket == "[" else "inline")
        except Exception as error:  # a formula that cannot be read must stop a strict build
            raise PluginError(f"{page.file.src_uri}: cannot read the formula {latex!r}: {error!r}") from error
        return f'<{tag} class="math">{mathml}</{tag}>'

    return FORMULA.sub(drawn, content)
