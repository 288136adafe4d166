"""Text into HTML and data into a script element, so that nothing a user typed can become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any

# Neither allowed in HTML nor visible: they could only hide something.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def text(value: object) -> str:
    """Escaped text, safe between tags and inside quoted attributes."""
    return html.escape(CONTROLS.sub("\ufffd", str(value)), quote=True)


def name(value: object) -> str:
    """A name that a user gave: escaped, and isolated so that right-to-left letters cannot reorder the line."""
    return f"<bdi>{text(value)}</bdi>"


def embedded_json(value: Any) -> str:
    """JSON for the inside of a script element: `</script>`, `<!--` and U+2028 cannot appear in it."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_hash(script: str) -> str:
    """The source expression by which a content security policy admits exactly this script."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def filled(template: str, parts: dict[str, str]) -> str:
    """The template with each `{{name}}` replaced, in one pass: what is filled in is never searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)
